"""What the driver remembers through `kill -9`: records, volume contents, and what each pool has allocated."""
