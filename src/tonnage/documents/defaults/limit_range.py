"""Defaults of LimitRange: what containers get is completed from what they may ask for."""

from __future__ import annotations

from tonnage.documents.defaults.amounts import round_amounts
from tonnage.objects.document import Doc

_LISTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def default_limit_range(doc: Doc) -> None:
    """Fill in a LimitRange, in place. Mirrors SetDefaults_LimitRangeItem.

    Of a container the limit defaults to the maximum, the request to the limit, else to the minimum.
    """
    for item in doc.get("spec", {}).get("limits", ()):
        for field in _LISTS:
            round_amounts(item.get(field))
        if item.get("type") != "Container":
            continue
        limits = {**item.get("max", {}), **item.get("default", {})}
        requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests
