"""What every node would do for a pod's volumes, for people: where bytes come from, and the nearest miss."""
