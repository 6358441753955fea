"""Texts that others wrote, read within a budget: JSON and YAML to plain values."""
