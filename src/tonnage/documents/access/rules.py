"""One rule of a role, and whether it allows what is asked. Mirrors pkg/apis/rbac/v1/evaluation_helpers.go.

A rule is about resources or about paths. `*` stands for every verb, group or resource; `*/status` for that subresource
of everything; a path may end in `*`. `resourceNames` limit a rule to objects of these names: what has no name (create,
list of all) is then not allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.documents.access.attributes import Attributes
from tonnage.documents.go_text import quoted_list
from tonnage.objects.document import Doc

ALL = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """A PolicyRule."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()

    def allows(self, attributes: Attributes) -> bool:
        if not attributes.is_resource_request:
            return self.allows_path(attributes.verb, attributes.path)
        return self.allows_resource(
            attributes.verb, attributes.group, attributes.resource, attributes.subresource
        ) and (not self.resource_names or attributes.name in self.resource_names)

    def allows_resource(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Is the rule about this resource, names apart?"""
        return _has(self.verbs, verb) and _has(self.api_groups, group) and self._has_resource(resource, subresource)

    def allows_path(self, verb: str, path: str) -> bool:
        return _has(self.verbs, verb) and any(url_covers(url, path) for url in self.non_resource_urls)

    def _has_resource(self, resource: str, subresource: str) -> bool:
        if not subresource:
            return _has(self.resources, resource)
        return _has(self.resources, f"{resource}/{subresource}") or f"{ALL}/{subresource}" in self.resources

    def __str__(self) -> str:
        """`{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}`: as refusals tell of it."""
        told = {
            "APIGroups": self.api_groups,
            "Resources": self.resources,
            "NonResourceURLs": self.non_resource_urls,
            "ResourceNames": self.resource_names,
            "Verbs": self.verbs,
        }
        return "{" + ", ".join(f"{field}:{quoted_list(values)}" for field, values in told.items() if values) + "}"


Rules = tuple[Rule, ...]


def rule_of(doc: Doc) -> Rule:
    """The rule that a document describes."""
    fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return Rule(*(tuple(doc.get(field, ())) for field in fields))


def rules_of(role: Doc) -> Rules:
    """The rules of a Role or a ClusterRole."""
    return tuple(rule_of(rule) for rule in role.get("rules") or ())


def document_of(rule: Rule) -> Doc:
    """A rule as roles have it; what is empty is left out."""
    fields = {
        "verbs": rule.verbs,
        "apiGroups": rule.api_groups,
        "resources": rule.resources,
        "resourceNames": rule.resource_names,
        "nonResourceURLs": rule.non_resource_urls,
    }
    return {field: list(values) for field, values in fields.items() if values}


def url_covers(pattern: str, path: str) -> bool:
    """Is the path, which may itself end in `*`, within the pattern?"""
    return pattern == path or (pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL)))


def _has(values: Iterable[str], asked: str) -> bool:
    return ALL in values or asked in values
