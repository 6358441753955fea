"""What the driver keeps through `kill -9`: records, and contents of volumes."""
