"""Questions about a cluster, asked from the page: why, what waits, what if, and files that are played."""
