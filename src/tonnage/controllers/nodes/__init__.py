"""Nodes that stop answering: their conditions, their taints, and the pods that have to leave them."""
