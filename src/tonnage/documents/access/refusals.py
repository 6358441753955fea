"""What somebody is told who may not, in upstream's words: people and programs look for them."""

from __future__ import annotations

from tonnage.documents.access.attributes import Attributes
from tonnage.documents.go_text import quoted
from tonnage.errors import Forbidden

_SANITIZED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""An answer must not look like HTML, whatever somebody calls himself."""


def forbidden(attributes: Attributes, reason: str = "") -> Forbidden:
    """The 403 of an authorizer that said no, with the reason it gave, if it gave one."""
    why = cannot(attributes).translate(_SANITIZED)
    if reason:
        why = f"{why}: {reason}"
    resource = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    if resource and attributes.name:
        told = f"{resource} {quoted(attributes.name)} is forbidden: {why}"
    else:
        told = f"{resource} is forbidden: {why}" if resource else f"forbidden: {why}"
    return Forbidden(told, group=attributes.group, kind=attributes.resource, name=attributes.name)


def cannot(attributes: Attributes) -> str:
    """`User "x" cannot list resource "pods" in API group "" in the namespace "default"`."""
    user, verb = quoted(attributes.user.name), attributes.verb
    if not attributes.is_resource_request:
        return f"User {user} cannot {verb} path {quoted(attributes.path)}"
    where = f"in the namespace {quoted(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    resource = quoted(attributes.resource_path)
    return f"User {user} cannot {verb} resource {resource} in API group {quoted(attributes.group)} {where}"
