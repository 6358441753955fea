"""`tonnage pools`: publishes the pools of drivers that have several on a node and report one number.

    what a driver publishes elsewhere          sources/ (pure, one class per driver)
    its classes, and the nodes                 ──────────────►  free bytes of every pool, by class and node
    the CSIStorageCapacity of its provisioner  wanted.py (pure) ─►  annotations, written by controller.py

The scheduler reads the annotation `tonnage.dev/available-capacities` of an object without `availableCapacities`. Beside
it are its source (`tonnage.dev/pools-source`), when the pools were observed (`…/pools-observed-at`) and last checked
(`…/pools-checked-at`), and since when the source is silent (`…/pools-stale-since`). They are server-side applied under
a field manager of their own. Why pools have their own times: docs/decisions/019-pools-of-drivers-of-today.md.
"""
