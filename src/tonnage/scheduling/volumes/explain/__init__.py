"""What every node could do for a pod's volumes, for people: where the bytes come from, and the nearest miss."""
