"""A cluster on virtual time: the live scheduler's engine, and models of everything around it.

    scenario ──► agenda ──► World: objects ──► engine ──► placements ──► bindings ──► StorageModel ──► objects
                              ▲                                                            │
                              └──────────── volumes made or refused, figures published ────┘

The engine is the real one. What a driver, a provisioner, a kubelet and workload controllers do is a model with the
parameters of the reference driver; the same seed gives the same run.
"""
