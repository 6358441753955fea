"""Kubernetes objects as an API server keeps them: whole JSON documents, and the rules for them.

`admit` checks a document against its `schema`, the kind's file in `kinds` defaults and validates it, `patches` and
`apply` change it. Everything here is pure: documents in, documents or errors out. The server and all readers of
manifests create objects by `creation`.
"""
