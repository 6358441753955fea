"""The rules that a ClusterRole gathers from others, by their labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tonnage.objects.document import Doc
from tonnage.objects.selectors import InvalidSelector, LabelSelector


def aggregated_rules(role: Doc, others: Iterable[Doc]) -> list[Doc]:
    """The rules of every ClusterRole that one of the role's selectors selects, each once, in the order of their names.

    Mirrors ClusterRoleAggregationController.syncClusterRole.
    """
    by_name = sorted(others, key=lambda other: str(other["metadata"]["name"]))
    rules: list[Doc] = []
    for selector in role.get("aggregationRule", {}).get("clusterRoleSelectors", ()):
        for other in by_name:
            if other["metadata"]["name"] == role["metadata"]["name"]:
                continue
            if _matches(selector, other["metadata"].get("labels", {})):
                rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules


def _matches(selector: Doc, labels: Mapping[str, str]) -> bool:
    try:
        return msgspec.convert(selector, LabelSelector).matches(labels)
    except InvalidSelector:
        return False  # stored before its values were checked
