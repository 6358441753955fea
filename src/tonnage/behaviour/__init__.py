"""How Kubernetes behaves, as pure plans: objects in, decisions and objects out, without clocks, caches and clients.

Controllers and kubelets carry these plans out against an API server; `whatif` carries the same plans out on paper.
"""
