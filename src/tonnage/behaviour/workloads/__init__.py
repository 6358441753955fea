"""Workloads: what they create from their templates, how many pods they want, which pods go, and their status."""
