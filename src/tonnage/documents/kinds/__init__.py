"""The rules of every kind.

A kind has a file of its name with its `Strategy` (`documents/strategy.py`): defaults and validation. The kinds of RBAC,
of resource.k8s.io, of CSI drivers and of apps/v1 share a file. Defaults change a document in place and are idempotent:
they run whenever a document is decoded, before validation. Rules that several kinds share stand in
`documents/validation`.
"""
