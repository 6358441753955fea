"""Asking a plugin's hints as the queue does."""

from __future__ import annotations

from typing import Any

from tonnage.objects.core_v1 import Pod
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.events import QUEUE, SKIP, changes_of
from tonnage.scheduling.framework import Plugin


def wakes(plugin: Plugin, waiting: Pod, old: Any, new: Any) -> bool:
    """Would any hint of the plugin let the pod be tried again, after an object went from `old` to `new`?"""
    answers = []
    for seen in changes_of(old, new):
        for mask, hint in plugin.events():
            if mask.covers(seen.event):
                answers.append(QUEUE if hint is None else hint(PodInfo(waiting), seen.event, seen.old, seen.new))
    assert all(answer in (QUEUE, SKIP) for answer in answers)
    return QUEUE in answers
