"""Controllers: programs that bring a cluster to what its objects ask for, each from state, each safe to run twice.

`program` runs all of kube-controller-manager's that storage and workloads need, in one process (`tonnage controllers`);
`roster` lists them by name, and is where to start reading. Decisions are pure and in files of their own, acts are thin:

    storage     claims + volumes (the binder) · protection · ephemeral_claims · attachments · attacher
    workloads   stateful_sets · deployments · replica_sets · disruption
    the rest    garbage (by owners) · namespaces · node_lifecycle · taint_manager · pod_garbage

The node scaler is a program of its own: it plays the cluster autoscaler of KEP-5278's stories on a demo cluster. Its
decision is `node_scaling`, its acts are `node_scaler`.
"""
