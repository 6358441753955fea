"""What the controllers are called where they show themselves: as a lease, as a user agent."""

from __future__ import annotations

from typing import Final

PROGRAM: Final = "tonnage-controllers"
