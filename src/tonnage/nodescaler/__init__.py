"""A small stand-in for a cluster autoscaler: creates nodes from a template for unschedulable pods (KEP-5278).

`program` is the live loop and changes nodes and nominations on the server, `plan` decides which nodes of a pool are
wanted and which go, and asks the scheduling engine where pods would go.
"""
