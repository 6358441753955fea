"""One decision: the scheduling cycle, the answer cache behind it, and why it came out as it did."""
