"""The workloads: `apps` has the kinds of apps/v1 and ReplicationController."""
