"""What the driver keeps through `kill -9`: records, contents of volumes, and what pools have allocated."""
