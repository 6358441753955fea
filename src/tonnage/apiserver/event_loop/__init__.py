"""Keeping the event loop free: threads for large requests, turns for long walks, and a measure of how late it is."""
