"""The workloads, a file a kind: apps/v1, ReplicationController, Job and CronJob."""
