"""The slice of a kubelet that storage needs, for many nodes in one process.

    program.py        `NodeProgram`: shared informers, one Kubelet a node, faults on request
    kubelet.py        `Kubelet`: drivers, registration, attach limits and pods of one node
    drivers.py        which CSI drivers are installed on the node, found by their sockets
    registration.py   Node, CSINode and Lease of the node
    csinode/          the CSINode: entries of drivers, and their attach limits, corrected while the node runs (KEP-4876)
    mounts/           what a pod's volumes need (`mount_plan`), staged and published over CSI (`mounter`), and undone
    pods/             `PodWorker` syncs pods: volumes, status, termination

Rules stand apart from what acts on them: `driver_entry`, `attachments`,
`mount_paths`, `mount_plan`, `csi_requests`, `node_objects` and `pods.status` are functions of objects. Nothing runs
in a container here: a pod whose volumes are there is Running until it is deleted, whatever its restart policy.
"""
