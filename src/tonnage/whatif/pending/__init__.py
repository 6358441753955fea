"""Pods that wait: why, grouped by cause, and what would help the most of them at once."""
