"""The cluster as columns, one row per node: what decisions read, updated row by row as objects change."""
