"""The cluster as columns, one row a node: what every decision reads, changed row by row as objects change."""
