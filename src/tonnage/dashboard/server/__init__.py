"""The dashboard over HTTP: pages, JSON endpoints of version v1, and server-sent events, for whoever has the token."""
