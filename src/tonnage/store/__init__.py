"""The store: revisions of opaque documents in one SQLite file, durable before they are acknowledged.

`Store` is the whole interface (`store.py` has the picture). All it knows of Kubernetes is that a key starts with its
resource.
"""
