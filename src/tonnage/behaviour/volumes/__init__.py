"""Volumes: which claim gets which volume, and which volume should be attached where."""
