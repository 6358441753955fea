"""Where a pod should go, decided for all nodes at once. Pure: no I/O, no clock, no randomness of its own.

Start with `framework/`, the contract with plugins; `cluster/` is what is known, in columns; `decision/` decides.
"""
