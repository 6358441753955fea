"""A whole small cluster as one process tree: what `tonnage up` runs and `tonnage demo` plays on.

                                  ┌─ apiserver
      supervisor ──── forkserver ─┼─ scheduler · controllers · csi-driver · provisioner · node
                                  └─ each started again when it ends before its time

`cluster` starts and stops everything in order; `supervisor` keeps the programs running; `forkserver` starts processes
without loading Python each time; `settings` has a cluster's settings, command lines and ports; `bootstrap` the first
objects and the programs' accounts; `status` shows a cluster's state from outside.
"""
