"""The kinds of storage.k8s.io, and PersistentVolume and PersistentVolumeClaim, a file a kind.

They mirror upstream's pkg/apis/storage/validation, and keep the paths it gives, the odd ones too:
`spec.attachedRequired`, `spec.drivers` without an index, topology keys at `spec.drivers[0]`.
"""
