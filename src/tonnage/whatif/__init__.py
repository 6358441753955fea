"""Questions about a cluster that may not exist: manifests, snapshots of live clusters, explain and replay.

Everything here drives `scheduling.engine`, the engine of the live scheduler, and writes nothing to any cluster.
"""
