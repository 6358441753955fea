"""The scheduling queue: which pod is tried when, its queueing hints, and nominations."""
