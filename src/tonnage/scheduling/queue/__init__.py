"""Which pod is tried when: the scheduling queue, its queueing hints, and who is nominated where."""
