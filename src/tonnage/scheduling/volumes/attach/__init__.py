"""Attach limits: how many volumes each driver may attach to a node, and which volumes are there."""
