"""A cluster on virtual time: the live scheduler's engine, and models of everything around it.

    scenario ──► agenda ──► World: objects ──► engine ──► placements ──► bindings ──► StorageModel ──► objects
                              ▲                                                            │
                              └──────────── volumes made or refused, figures published ────┘

The engine is the real one. Driver, provisioner, kubelets and workload controllers are models with the parameters of the
reference driver. The same seed gives the same run.
"""
