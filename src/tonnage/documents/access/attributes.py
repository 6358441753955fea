"""What one request wants, in the words that an authorizer judges: upstream's attributes record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tonnage.objects.users import User


@dataclass(frozen=True, slots=True)
class Attributes:
    """A verb on a resource, or on a path that is no resource (then `path` is set and `resource` is empty)."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def is_resource_request(self) -> bool:
        return bool(self.resource) or not self.path

    @property
    def resource_path(self) -> str:
        """`pods/status`, as rules spell it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Yes or no, and which rule said so, or why none could be asked."""

    allowed: bool
    reason: str = ""
    evaluation_error: str = ""


class Authorizer(Protocol):
    """Whoever says yes or no."""

    def authorize(self, attributes: Attributes) -> AccessDecision: ...


class AllowAll:
    """Everybody may do everything: a server without rules."""

    def authorize(self, attributes: Attributes) -> AccessDecision:
        return AccessDecision(True)
