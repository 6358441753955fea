"""The pods of a node: synced until they run, their status, and their termination."""
