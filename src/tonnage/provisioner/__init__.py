"""Volumes and published capacity of one CSI driver: external-provisioner's and external-resizer's work.

`volumes` makes, deletes, expands and changes volumes; each change has `capacity.controller` publish the driver's new
figures. `program` puts it together, `context` is what its controllers are given.
"""
