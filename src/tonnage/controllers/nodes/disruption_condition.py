"""The condition of a pod that is deleted for reasons outside of it: `DisruptionTarget`.

It tells a pod's controller that the pod did not fail by itself. Both controllers that delete such pods
(`taint_eviction`, `pod_garbage_collector`) write it through here, before the deletion.
"""

from __future__ import annotations

from tonnage import logs
from tonnage.client.http import Client
from tonnage.clock import Clock, rfc3339
from tonnage.errors import Invalid, RequestEntityTooLarge
from tonnage.objects.core_v1 import Pod
from tonnage.objects.document import Doc

_DISRUPTED = "DisruptionTarget"

_log = logs.logger(__name__)


async def mark_disrupted(client: Client, pod: Pod, reason: str, message: str, *, clock: Clock, failed: bool) -> None:
    """Write the condition, and the phase Failed with it where there is nobody left to do so.

    Writes nothing when it says so already, and goes without when that cannot be written: the deletion comes first.
    Raises NotFound, Conflict when this life of the pod is over.
    """
    status: Doc = {}
    known = pod.condition(_DISRUPTED)
    is_new = known is None or not known.is_true
    if reason and (known is None or is_new or (known.reason, known.message) != (reason, message)):
        condition = {"type": _DISRUPTED, "status": "True", "reason": reason, "message": message}
        since = {"lastTransitionTime": rfc3339(clock.now())} if is_new else {}
        status["conditions"] = [condition | since]
    if failed and not pod.is_terminal:
        status["phase"] = "Failed"
    if status:
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        try:
            await client.patch(Pod, pod.key, patch, patch_type="strategic", subresource="status")
        except (RequestEntityTooLarge, Invalid) as exc:
            # The pod has no room for it, or somebody wrote a status that no server takes: it goes all the same.
            _log.warning("A pod is not marked before it is deleted", pod=pod.key, error=exc.message)
