"""The reference CSI driver: several pools a node, many nodes in one process, everything kept through `kill -9`.

    services/     the gRPC services: requests read and checked, `interceptor` around every call
    driver.py     `Driver`: what the services call; serving.py opens the sockets
    volumes/      create, delete, expand, publish, stage, rebuild, snapshot; sizes, parameters, topology: no I/O
    core.py       what those share: settings, locks, faults, state
    state/        records and contents on disk, and in memory what each pool and node has allocated
    rebuilding/   the one part that knows Kubernetes: it keeps KEP-5925's contract, through `rebuild_hooks`

`pool_choice` is which pool a new volume goes to, `per_node` pools as people write them, `injected_faults` what goes
wrong on request.
"""
