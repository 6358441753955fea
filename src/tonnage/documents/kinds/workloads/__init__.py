"""The workloads, one file per kind: apps/v1, ReplicationController, Job and CronJob."""
