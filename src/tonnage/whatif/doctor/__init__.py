"""`doctor`: what of a cluster Tonnage can use, what it would change there, and what to set.

    server.py (asks) ──► Facts ──► checks (one file a group, pure functions) ──► findings ──► Examination
                                     └── switch.py drives two engines                as text, JSON, HTML

Every finding has a stable name, a severity, the object it is about and a remedy; `facts.py` has the table.
"""
