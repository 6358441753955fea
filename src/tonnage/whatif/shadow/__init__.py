"""`shadow`: decide along with the scheduler of a live cluster, write nothing, and say where the two differ."""

from typing import Final

STUCK_AFTER_S: Final = 120.0
"""After this time a placed pod's claim without a volume counts as stuck. Cloud disks take up to a minute."""
