"""Tonnage: a storage-aware scheduler for Kubernetes."""
