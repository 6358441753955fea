"""`tonnage pools`: pools of drivers that have several on a node and report one number.

    what a driver publishes elsewhere          sources/ (pure, one file a driver)
    its classes, and the nodes                 ──────────────►  free bytes of each pool, by class and node
    the CSIStorageCapacity of its provisioner  wanted.py (pure) ─►  annotations, written by controller.py

The annotation is `tonnage.dev/available-capacities`, which the scheduler reads where an object has no
`availableCapacities`. Beside it stands who keeps it (`tonnage.dev/pools-source`), as of when it is true
(`tonnage.dev/pools-observed-at`), when this program last saw that it still is (`tonnage.dev/pools-checked-at`) and,
when the source has fallen silent, since when (`tonnage.dev/pools-stale-since`). It is server-side applied under a field
manager of its own, so that the driver's provisioner, which writes `capacity`, and this program each keep to their own
fields.

What it does not know it does not write: an object without the annotation is judged by the driver's own figure, as
before. Why pools have a time of their own: docs/decisions/019-pools-of-drivers-of-today.md.
"""
