"""Two plugins for Tonnage: one that judges nodes one by one, and one that judges all of them at once.

Nodes carry when their disks were built (`example.com/disk-year: "2024"`, a label) and, when they are about to be
serviced, on which day (`example.com/service-on: "2026-12-01"`, an annotation).
"""

from tonnage_disk_age.newer_disks import NewerDisks
from tonnage_disk_age.no_service_ahead import NoServiceAhead

__all__ = ["NewerDisks", "NoServiceAhead"]
