"""Tonnage: a storage-aware scheduler for Kubernetes. The version stands only here: build and programs read it."""

from typing import Final

__all__ = ["KUBERNETES_VERSION", "__version__"]

__version__ = "0.1.0"

KUBERNETES_VERSION: Final = "1.36.0"
"""The Kubernetes release whose behaviour Tonnage follows: its API, its defaults, its scheduler's plugins and words."""
