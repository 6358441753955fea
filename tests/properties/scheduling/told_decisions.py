"""What two engines say about the same pod, made comparable."""

from __future__ import annotations

import json
import re
from typing import Any


def comparable(told: dict[str, Any]) -> dict[str, Any]:
    """All but what is by lot (which of equally good nodes, whom to preempt there), and the order of holds that began in
    the same second, of which the first is named."""
    found = json.loads(json.dumps(told))
    for entries in found["volumes"].values():
        for entry in entries:
            entry.pop("miss", None)
            entry.get("promised", []).sort(key=lambda each: each["claim"])
    for each in found["nodes"]:
        if "promised to" in each.get("nearestMiss", "") or "reserved for" in each.get("nearestMiss", ""):
            del each["nearestMiss"]
    found["nodes"].sort(key=lambda each: each["name"])
    found["message"] = "" if found["schedulable"] else re.split(r" On \d+ of \d+ nodes the room", found["message"])[0]
    return {**found, "node": "", "preemption": None}
