"""How Kubernetes behaves, as pure plans: objects in, decisions and objects out, without clocks, caches and clients.

Controllers and kubelets execute these plans against an API server; `whatif` executes the same plans on paper.
"""
