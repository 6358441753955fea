"""What a scheduler saw and decided, line by line, and the same again: an engine that is written down and repeated."""
