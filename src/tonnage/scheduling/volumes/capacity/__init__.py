"""CSIStorageCapacity objects as decisions read them: which nodes they reach, and what their pools hold."""
