"""CSIStorageCapacity objects: one for each topology segment and class of a driver, kept true."""
