"""The rules that a ClusterRole gathers from others, by their labels."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tonnage.objects.document import Doc
from tonnage.objects.selectors import InvalidSelector, LabelSelector, selects

_in_order = msgspec.json.Encoder(order="deterministic")


def aggregated_rules(role: Doc, others: Iterable[Doc]) -> list[Doc]:
    """The rules of every ClusterRole that one of the role's selectors selects, each once, in the order of their names.

    Mirrors ClusterRoleAggregationController.syncClusterRole.
    """
    by_name = sorted(others, key=lambda other: str(other["metadata"]["name"]))
    rules: dict[bytes, Doc] = {}
    for selector in map(_selector, role.get("aggregationRule", {}).get("clusterRoleSelectors", ())):
        for other in by_name if selector is not None else ():
            if other["metadata"]["name"] == role["metadata"]["name"]:
                continue
            if selects(selector, other["metadata"].get("labels", {})):
                for rule in other.get("rules") or ():
                    rules.setdefault(_in_order.encode(rule), rule)
    return list(rules.values())


def _selector(doc: Doc) -> LabelSelector | None:
    selector = msgspec.convert(doc, LabelSelector)
    try:
        selector.matches({})
    except InvalidSelector:
        return None  # stored before its values were checked
    return selector
