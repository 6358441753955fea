"""Are some rights within others? What nobody may give away that does not have it is found here.

Rules are taken apart into single rights (one verb on one resource of one group, of one name if names are given); each
of those is covered by one rule or by none. Mirrors component-helpers' auth/rbac/validation and CompactRules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tonnage.documents.access.rules import ALL, Rule, url_covers


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The single rights in `wanted` that no rule of `owned` has."""
    return [right for rule in wanted for right in single_rights(rule) if not any(_covers(has, right) for has in owned)]


def single_rights(rule: Rule) -> Iterator[Rule]:
    """A rule, taken apart."""
    for group in rule.api_groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                if not rule.resource_names:
                    yield Rule((verb,), (group,), (resource,))
                for name in rule.resource_names:
                    yield Rule((verb,), (group,), (resource,), (name,))
    for url in rule.non_resource_urls:
        for verb in rule.verbs:
            yield Rule((verb,), non_resource_urls=(url,))


def _covers(rule: Rule, right: Rule) -> bool:
    return (
        _has_all(rule.verbs, right.verbs)
        and _has_all(rule.api_groups, right.api_groups)
        and all(_has_resource(rule, resource) for resource in right.resources)
        and (not rule.resource_names or _is_within(right.resource_names, rule.resource_names))
        and all(any(url_covers(pattern, url) for pattern in rule.non_resource_urls) for url in right.non_resource_urls)
    )


def _has_all(values: Sequence[str], asked: Sequence[str]) -> bool:
    return ALL in values or all(value in values for value in asked)


def _has_resource(rule: Rule, resource: str) -> bool:
    _, slash, subresource = resource.partition("/")
    return _has_all(rule.resources, (resource,)) or (bool(slash) and f"{ALL}/{subresource}" in rule.resources)


def _is_within(names: Sequence[str], limit: Sequence[str]) -> bool:
    """A right to every name is not within a right to some."""
    return bool(names) and all(name in limit for name in names)


def compacted(rules: Iterable[Rule]) -> list[Rule]:
    """Rules about the same one resource as one rule with the verbs of all; what is not so simple stays as it is."""
    others: list[Rule] = []
    simple: dict[tuple[str, str, tuple[str, ...]], Rule] = {}
    for rule in rules:
        is_single = len(rule.api_groups) == len(rule.resources) == 1 and len(rule.resource_names) <= 1
        if not is_single or rule.non_resource_urls:
            others.append(rule)
            continue
        about = (rule.api_groups[0], rule.resources[0], rule.resource_names)
        known = simple.get(about)
        simple[about] = rule if known is None else replace(known, verbs=known.verbs + rule.verbs)
    return [*others, *simple.values()]
