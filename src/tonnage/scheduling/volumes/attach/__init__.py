"""Attach limits: how many volumes of a driver may be attached to a node, and which volumes are attached."""
