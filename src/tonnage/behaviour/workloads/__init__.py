"""Workloads: what they make of their templates, how many pods they want, which of them go, and what they say of it."""
