"""Volumes for claims: provisioned, cloned, expanded, deleted, and given back when a node has no room."""
