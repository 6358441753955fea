"""A scheduler without I/O. The live scheduler, replay, explain, the node scaler and tests all drive it."""
