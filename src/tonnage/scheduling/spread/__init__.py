"""Pods in relation to other pods: topology spread constraints and inter-pod affinity terms, as columns."""
