"""`shadow`: decide along with the scheduler of a live cluster, write nothing, and say where the two differ."""

from typing import Final

STUCK_AFTER_S: Final = 120.0
"""A claim that has no volume so long after its pod was sent somewhere. Disks of clouds take up to a minute."""
