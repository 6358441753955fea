"""`doctor`: what of a cluster Tonnage can use, what it would change there, and what to set.

    reading.py ──► Facts ──► checks (one file a group, pure functions) ──► findings ──► Diagnosis (examination.py)
    the one file that                 │                                                    │
    asks a server                     └── switch.py drives two engines          as text, JSON, HTML

Every finding has a name that stays, a severity, the object it is about and a remedy; `findings.py` is the table.
"""
