"""The pods of a node: found, brought up, their status told."""
