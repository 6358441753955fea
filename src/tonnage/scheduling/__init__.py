"""Where a pod should go, decided for all nodes at once. Pure: no I/O, no clock or randomness of its own.

Start with `framework.py`, the contract with plugins; `cluster/` has the state in columns; `decision/` decides.
"""
