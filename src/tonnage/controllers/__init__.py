"""Controllers: programs that bring a cluster to what its objects ask for, each from state, each safe to run twice.

The node scaler is the first: it plays the cluster autoscaler of KEP-5278's stories on a demo cluster. Its decision is
pure (`node_scaling`), its acts are thin (`node_scaler`).
"""
