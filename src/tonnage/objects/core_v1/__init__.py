"""core/v1: nodes, pods, volumes and claims, and the small kinds around them, exported under one name.

One file per family: `pod` (with the nodes), `persistent_volume` (with claims and volumes) and `small_kinds`. Taints and
node selectors stand beside their rules (`objects.requirements`).
"""

# ruff: noqa: F403  # all of what these modules define, and nothing else, is what this package offers
from tonnage.objects.core_v1.persistent_volume import *
from tonnage.objects.core_v1.pod import *
from tonnage.objects.core_v1.small_kinds import *
from tonnage.objects.requirements import *
