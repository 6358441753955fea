"""A whole small cluster as one process tree: what `tonnage up` runs and `tonnage demo` plays on.

                      ┌─ apiserver
      supervisor ──── nursery ─┼─ scheduler · controllers · csi-driver · provisioner · node
     (cluster.py)  (nursery.py)└─ each started again when it ends before its time

`cluster` is the order in which things start and stop; `nursery` makes processes without loading Python each time;
`children` is the supervisor's view of them; `settings` is what a cluster was asked to be, kept with its state.
"""

from tonnage.plane.cluster import Plane
from tonnage.plane.settings import PlaneSettings

__all__ = ["Plane", "PlaneSettings"]
