"""At raised verbosity (-v 4) the scheduler logs, pod by pod, what it considered for the pod's volumes.

    I… tonnage.scheduler.volumes] "Considered for volumes" pod="shop/db" kind="dynamic" object="kube-system/n1-pools"
       pools=["100Gi","60Gi"] claims=["shop/data"] fits=false reason="largest free pool 100Gi, needs 120Gi" …

One line an object and outcome, so many at most an attempt. At normal verbosity nothing of it is computed. Whatever goes
wrong in it is told, and changes nothing about the attempt.
"""

from __future__ import annotations

import logging
from typing import Final

from tonnage import logs
from tonnage.scheduling.decision.explain import accounts_of
from tonnage.scheduling.decision.scheduling_cycle import Decider, Decision
from tonnage.scheduling.volumes.explain.considered_objects import considered_objects

MAX_LINES: Final = 50

_log = logs.logger("tonnage.scheduler.volumes")


def log_considered(decider: Decider, decision: Decision) -> None:
    """Write what was considered, if somebody reads it; refusals first, for they are what one looks for."""
    pod = decision.cycle.pod
    if not _log.isEnabledFor(logging.DEBUG) or not pod.pod.claim_names():
        return
    try:
        found = considered_objects(accounts_of(decider, decision))
    except Exception:  # on the scheduling loop, which must not end because of a log line
        _log.exception("What was considered cannot be told", pod=pod.key)
        return
    found.sort(key=lambda each: not each.reason)
    for each in found[:MAX_LINES]:
        _log.debug("Considered for volumes", pod=pod.key, **each.fields())
    if len(found) > MAX_LINES:
        _log.debug("More was considered for volumes", pod=pod.key, lines_left_out=len(found) - MAX_LINES)
