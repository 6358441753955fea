"""The reference CSI driver: several pools a node, many nodes in one process, everything kept through `kill -9`.

`placement`, `sizes`, `parameters` and `topology` decide and do no I/O. `books` counts what is promised, `state` keeps
it on disk, `contents` are the volumes themselves. `making`, `snapshots`, `publishing`, `staging` and `moving` do the
work, one family of calls each; `controller`, `node_service` and `identity` speak CSI; `calls` is the door every call
comes in by, `played_faults` what goes wrong on request. `driver.Driver` holds it together and `serving.serve` opens the
sockets. `rebuilding` is the one part that knows Kubernetes: it keeps KEP-5925's contract through `hooks`.
"""
