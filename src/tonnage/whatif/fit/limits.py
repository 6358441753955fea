"""How far `tonnage fit` counts when nobody says how far."""

from __future__ import annotations

from typing import Final

MOST: Final = 10_000
"""Where counting ends unless somebody asks for more: nobody scales that far by accident."""
