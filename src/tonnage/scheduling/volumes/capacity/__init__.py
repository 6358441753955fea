"""CSIStorageCapacity objects as decisions read them: which reach which node, and what their pools hold."""
