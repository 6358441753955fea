"""The slice of a kubelet that storage needs, for many nodes in one process.

    NodeProgram (program.py)   shared informers, one Kubelet a node, faults on request
      Kubelet (kubelet.py)     registration · drivers · csi_nodes · limits · mounts · pods

Rules stand apart from what acts on them: `allocatable_updates`, `attachments`, `csinode_entry`, `expansion_rules`,
`mount_paths`, `mount_plan`, `node_objects`, `pod_status` and `volume_calls` are functions of objects. Nothing runs in a
container here: a pod whose volumes are there is Running, and stays so until it is deleted, whatever its restart policy.
"""
