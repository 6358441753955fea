"""Flags as Kubernetes' programs have them, in groups that several commands share."""
