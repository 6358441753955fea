"""Whoever asks, as the API server knows them: what a TokenReview answers and a SubjectAccessReview is asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"


@dataclass(frozen=True, slots=True)
class RemoteUser:
    """A user's name, and what else was learned when they were recognised."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_anonymous(self) -> bool:
        return UNAUTHENTICATED in self.groups

    def authenticated(self) -> RemoteUser:
        """The same, known to be somebody. Mirrors group.AuthenticatedGroupAdder."""
        if AUTHENTICATED in self.groups or self.is_anonymous:
            return self
        return replace(self, groups=(*self.groups, AUTHENTICATED))

    def review_spec(self) -> dict[str, Any]:
        """The part of a SubjectAccessReview's spec that says who asks."""
        spec: dict[str, Any] = {"user": self.name}
        if self.uid:
            spec["uid"] = self.uid
        if self.groups:
            spec["groups"] = list(self.groups)
        if self.extra:
            spec["extra"] = {name: list(values) for name, values in sorted(self.extra.items())}
        return spec


ANONYMOUS: Final = RemoteUser("system:anonymous", groups=(UNAUTHENTICATED,))
