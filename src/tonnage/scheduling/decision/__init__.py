"""One decision: the scheduling cycle, its answer cache, and its diagnosis."""
