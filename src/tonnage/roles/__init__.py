"""What each program may do at the API server, and why: one file of Kubernetes objects a program; nothing else says it.

    scheduler.yaml · provisioner.yaml · pools.yaml            what runs on a real cluster
    controllers.yaml · node.yaml · csi-driver.yaml · node-scaler.yaml · dashboard.yaml     the rest of `tonnage up`
    reader.yaml                                               people, and commands that only look

`role_files` reads them. `tonnage up` creates them and runs its
programs by them, manifests and the chart are made from them, and `doctor` asks for what stands there. That no right is
missing, and none is there that nobody uses, is held by tests: docs/security-model.md.
"""
