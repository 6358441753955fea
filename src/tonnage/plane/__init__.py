"""A whole small cluster as one process tree: what `tonnage up` runs and `tonnage demo` plays on.

                                  ┌─ apiserver
      supervisor ──── forkserver ─┼─ scheduler · controllers · csi-driver · provisioner · node
                                  └─ each started again when it ends before its time

`cluster` is the order in which things start and stop; `supervisor` keeps the programs running; `forkserver` makes
processes without loading Python each time; `settings` is what a cluster was asked to be, kept with its state, and the
programs' arguments and ports; `identities` is who they are; `bootstrap` is what is done once the API server serves;
`status` shows from outside how a cluster is doing.
"""
