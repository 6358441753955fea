"""How long `tonnage shadow` waits when nobody says how long."""

from __future__ import annotations

from typing import Final

STUCK_AFTER_S: Final = 120.0
"""A claim that has no volume so long after its pod was sent somewhere. Disks of clouds take up to a minute."""
