"""Volumes for claims: provisioned, cloned, expanded, modified, deleted, and rescheduled when a node is full."""
