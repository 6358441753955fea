"""The dashboard over HTTP: pages, the JSON endpoints of version v1, and server-sent events, guarded by a token."""
