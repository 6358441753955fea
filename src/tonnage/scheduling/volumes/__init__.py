"""What pods need of storage, and who has it: claims, volumes, pools, promises. `storage.py` is where all of it is kept;
the plugins VolumeBinding, NodeVolumeLimits, VolumeZone and VolumeRestrictions decide with it."""
