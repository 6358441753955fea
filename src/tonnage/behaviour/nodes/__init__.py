"""Nodes: which pods a kubelet refuses, when a node is lost, and which pods leave it then."""
