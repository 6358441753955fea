"""Kubernetes objects as an API server keeps them: whole JSON documents, and the rules they obey.

A document comes in through `admit` (against `schema`), is filled in, prepared and judged by its kind's file in `kinds`,
and changed by `patches` or `apply`. Everything here is pure: documents in, documents or errors out. `creation` is the
one way a new object is made, for the server and for everything that reads manifests.
"""
