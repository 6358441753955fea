"""Volumes and published capacity of one CSI driver: the work of external-provisioner and external-resizer.

`volumes` creates, deletes, expands and modifies volumes; after a change `capacity.controller` publishes the driver's
new capacity. `program` puts the parts together, `context` is what all controllers get.
"""
