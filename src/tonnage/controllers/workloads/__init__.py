"""Controllers that own pods, from the ReplicationController to the DaemonSet, and the disruption controller."""
