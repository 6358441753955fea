"""The rules of a role, and whether they allow a request. Mirrors pkg/apis/rbac/v1/evaluation_helpers.go.

A rule is about resources or about paths. `*` stands for every verb, group or resource; `*/status` for that subresource
of every resource; a path may end in `*`. `resourceNames` limit a rule to objects of these names, so it no longer allows
requests without a name (create, list of all).

A role may have 20,000 rules, and a rule 100,000 names: `RuleIndex` maps every value to the rules that have it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from tonnage.documents.go_text import quoted_list
from tonnage.keyed import grouped
from tonnage.objects.document import Doc
from tonnage.objects.selectors import InvalidSelector, LabelSelector, selects

ALL = "*"
GROUP, RESOURCE, NAME, VERB, URL = range(5)
"""The sides of a rule, as `RuleIndex` numbers them."""
UNNAMED: Final = None
"""In place of a name: all objects, whatever their names."""
_FEW: Final = 8
"""Up to this many positions a tuple is searched as fast as a set, and is smaller."""
Positions = Collection[int]
_Postings = Mapping[str | None, Positions]
_in_order = msgspec.json.Encoder(order="deterministic")


class Rule(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    gc=False,
    rename={"api_groups": "apiGroups", "resource_names": "resourceNames", "non_resource_urls": "nonResourceURLs"},
):
    """A PolicyRule of RBAC."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()

    def __str__(self) -> str:
        """`{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}`, as refusals show it."""
        told = {
            "APIGroups": self.api_groups,
            "Resources": self.resources,
            "NonResourceURLs": self.non_resource_urls,
            "ResourceNames": self.resource_names,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{field}:{quoted_list(values)}" for field, values in told.items() if values) + "}"


Rules = tuple[Rule, ...]


def rules_of(role: Doc) -> Rules:
    """The rules of a Role or a ClusterRole without duplicates."""
    return tuple(dict.fromkeys(msgspec.convert(role.get("rules") or (), tuple[Rule, ...])))


def document_of(rule: Rule) -> Doc:
    """A rule as JSON; empty fields are left out."""
    doc: Doc = msgspec.json.decode(msgspec.json.encode(rule))
    return doc


class RuleIndex:
    """The rules of one role, and for every verb, group, resource, name and path the positions of its rules."""

    __slots__ = ("_postings", "_prefix_lengths", "rules")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._postings: tuple[_Postings, ...] = ()
        self._prefix_lengths: tuple[int, ...] = ()

    def allows(self, verb: str, group: str, resource: str, name: str | None = UNNAMED) -> bool:
        """True if the rules allow the verb on the object of this name; by default on objects of every name."""
        return self._is_any({NAME: name, **_about(verb, group, resource)})

    def allows_some(self, verb: str, group: str, resource: str) -> bool:
        """True if the rules allow the verb on at least one object, if only on certain names."""
        return self._is_any(_about(verb, group, resource))

    def allows_path(self, verb: str, path: str) -> bool:
        return self._is_any({URL: path, VERB: verb})

    def _is_any(self, asked: Mapping[int, str | None]) -> bool:
        choices: list[list[Positions]] = []
        for side, value in asked.items():
            choices.append(self.having(side, value))
            if not choices[-1]:
                return False
        fewest = min(choices, key=lambda choice: sum(map(len, choice)))
        return any(
            all(any(position in where for where in choice) for choice in choices)
            for positions in fewest
            for position in positions
        )

    def having(self, side: int, value: str | None) -> list[Positions]:
        """Positions of the rules that have the value on this side, literally or by a wildcard."""
        postings = self.postings()[side]
        return [postings[spelled] for spelled in self._spellings(side, value) if spelled in postings]

    def has_all(self, side: int, position: int) -> bool:
        """True if the rule at `position` has a wildcard on this side."""
        return side != URL and position in self.postings()[side].get(UNNAMED if side == NAME else ALL, ())

    def _spellings(self, side: int, value: str | None) -> Iterable[str | None]:
        """How a rule may spell a value: `pods/status`, for example, as `pods/status`, `*/status` or `*`."""
        if side == NAME or value is None:
            return dict.fromkeys((value, UNNAMED))
        if side == URL:
            return (value, *(f"{value[:length]}{ALL}" for length in self._prefix_lengths if length <= len(value)))
        _, slash, subresource = value.partition("/")
        is_subresource = side == RESOURCE and slash
        return dict.fromkeys((value, ALL, f"{ALL}/{subresource}") if is_subresource else (value, ALL))

    def postings(self) -> tuple[_Postings, ...]:
        """Positions by side and value. Rules without names stand at UNNAMED; a path's trailing asterisks become one."""
        if not self._postings:
            urls = [
                [url.rstrip(ALL) + ALL if url.endswith(ALL) else url for url in rule.non_resource_urls]
                for rule in self.rules
            ]
            self._prefix_lengths = tuple({len(url) - 1 for of_rule in urls for url in of_rule if url.endswith(ALL)})
            self._postings = (
                _posted(rule.api_groups for rule in self.rules),
                _posted(rule.resources for rule in self.rules),
                _posted(rule.resource_names or (UNNAMED,) for rule in self.rules),
                _posted(rule.verbs for rule in self.rules),
                _posted(urls),
            )
        return self._postings


def _about(verb: str, group: str, resource: str) -> dict[int, str | None]:
    return {RESOURCE: resource, GROUP: group, VERB: verb}  # fewest matches first


def _posted(values_of_rules: Iterable[Iterable[str | None]]) -> _Postings:
    rules = enumerate(values_of_rules)
    postings = grouped((value, position) for position, values in rules for value in dict.fromkeys(values))
    return {value: frozenset(where) if len(where) > _FEW else tuple(where) for value, where in postings.items()}


def aggregated_rules(role: Doc, others: Iterable[Doc]) -> list[Doc]:
    """The rules of every ClusterRole that the role's selectors select, by name and without duplicates."""
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
        return None  # stored before its values were validated
    return selector
