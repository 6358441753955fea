"""A small stand-in for a cluster autoscaler: nodes from a template for pods that fit nowhere (KEP-5278).

`program` is the live loop, `plan` decides what a pool of nodes should become and which of its nodes go, `trial` asks
the scheduling engine where pods would go, `writes` changes nodes and nominations on the server.
"""
