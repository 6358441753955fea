"""Controllers: loops that make a cluster what its objects ask for, each from state, each safe to run twice.

`program` runs all of kube-controller-manager's that storage and workloads need, in one process (`tonnage controllers`);
`registry` lists them by name, and is where to start reading. Decisions are pure and in files of their own (`…_plan`,
`…_rules`, `sync_…`), the controllers around them do the reading and writing:

    volumes     persistent_volume_binder · protection · ephemeral_claims · attach_detach · attacher (a CSI sidecar)
    workloads   stateful_sets · deployments · replica_sets · disruption
    nodes       node_lifecycle · taint_eviction · pod_garbage_collector
    garbage     garbage_collector (by owners) · namespaces
"""
