"""One node's CSINode: its drivers, their attach limits, and when those limits are corrected (KEP-4876)."""
