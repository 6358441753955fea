"""Where a pod should go, decided for all nodes at once. Pure: no I/O, no clock, no randomness of its own.

Start with `framework.py`, the contract on one page; `cluster.py` is what is known, in columns; `cycle.py` is one
decision.
"""
