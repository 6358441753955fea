"""CSIStorageCapacity objects: one per topology segment and class of a driver, kept up to date."""
