"""OutOfScope: a pod that needs what this scheduler does not do is told so, and is never placed as if it did not.

Devices (resource.k8s.io) and pod groups are out of scope for good. Every profile runs this plugin first; it cannot be
switched off.
"""

from __future__ import annotations

from tonnage.scheduling.framework import Cycle, PreFilterPlugin, Status, unresolvable


class OutOfScope(PreFilterPlugin):
    name = "OutOfScope"

    def pre_filter(self, cycle: Cycle) -> Status | None:
        spec = cycle.pod.pod.spec
        if spec.resource_claims:
            return unresolvable("pod asks for devices by resource claims, which Tonnage does not allocate")
        if spec.scheduling_group is not None:
            return unresolvable("pod belongs to a pod group, and Tonnage does not place groups")
        return None
