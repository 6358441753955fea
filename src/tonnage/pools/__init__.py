"""`tonnage pools`: pools of drivers that have several on a node and report one number.

    what a driver publishes elsewhere          sources/ (pure, a class a driver)
    its classes, and the nodes                 ──────────────►  free bytes of each pool, by class and node
    the CSIStorageCapacity of its provisioner  wanted.py (pure) ─►  annotations, written by controller.py

The scheduler reads the annotation `tonnage.dev/available-capacities` where an object has no `availableCapacities`.
Beside it stands who keeps it (`tonnage.dev/pools-source`), as of when it is true (`…/pools-observed-at`), when this
program last saw that it still is (`…/pools-checked-at`) and since when its source is silent (`…/pools-stale-since`). It
is server-side applied under a field manager of its own. An object without the annotation is judged by the driver's own
figure. Why pools have a time of their own: docs/decisions/019-pools-of-drivers-of-today.md.
"""
