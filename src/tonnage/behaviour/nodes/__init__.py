"""Nodes: which pods a kubelet rejects, when a node is lost, and which pods are then evicted."""
