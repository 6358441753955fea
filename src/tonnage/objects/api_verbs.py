"""What may be done with each resource and each of its subresources: the table beside `resources`.

Routing, discovery, OpenAPI and the handlers of an API server all read it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.objects.resources import Resource

BINDINGS = Resource("", "v1", "Binding", "bindings", True)
"""Also an older way to pods/{name}/binding. Nothing is stored there, so it is not in the table of resources, but
clients look for it."""
_AUTHORIZATION = "authorization.k8s.io"
ACCESS_REVIEWS = Resource(_AUTHORIZATION, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False)
"""What `kubectl auth can-i` asks. Nothing is stored there either."""
LOCAL_ACCESS_REVIEWS = Resource(_AUTHORIZATION, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", True)
RULES_REVIEWS = Resource(_AUTHORIZATION, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False)
SUBJECT_ACCESS_REVIEWS = Resource(_AUTHORIZATION, "v1", "SubjectAccessReview", "subjectaccessreviews", False)
AUTHORIZATION_REVIEWS = (LOCAL_ACCESS_REVIEWS, ACCESS_REVIEWS, RULES_REVIEWS, SUBJECT_ACCESS_REVIEWS)
"""Questions about rights, one's own and others'."""
_AUTHENTICATION = "authentication.k8s.io"
TOKEN_REVIEWS = Resource(_AUTHENTICATION, "v1", "TokenReview", "tokenreviews", False)
SELF_REVIEWS = Resource(_AUTHENTICATION, "v1", "SelfSubjectReview", "selfsubjectreviews", False)
"""What `kubectl auth whoami` asks."""
NOT_STORED = (BINDINGS, SELF_REVIEWS, TOKEN_REVIEWS, *AUTHORIZATION_REVIEWS)
_NOT_STORED = frozenset((row.group, row.plural) for row in NOT_STORED)
REVIEW_GROUPS = frozenset((_AUTHENTICATION, _AUTHORIZATION))
"""The groups of reviews; all else need not be compared with each of them."""
REVIEWS_BY_PATH = {(row.group, row.version, row.plural): row for row in NOT_STORED if row is not BINDINGS}
EVICTIONS = Resource("policy", "v1", "Eviction", "evictions", True)
TOKEN_REQUESTS = Resource(_AUTHENTICATION, "v1", "TokenRequest", "tokenrequests", True)
"""What serviceaccounts/{name}/token takes and gives."""
SCALES = Resource("autoscaling", "v1", "Scale", "scales", True)

_EVERY_VERB = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_VERBS = {
    **{(row.group, row.plural): ("create",) for row in NOT_STORED},
    # Deleting all namespaces at once is the one thing that a collection does not offer.
    ("", "namespaces"): tuple(verb for verb in _EVERY_VERB if verb != "deletecollection"),
}
_READ_AND_WRITE = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Subresource:
    """What one endpoint below an object offers, and in what it deals: objects of `body`, or the object itself."""

    verbs: tuple[str, ...] = _READ_AND_WRITE
    body: Resource | None = None


# Whatever is not listed here (status above all) shows the object itself.
_SUBRESOURCES = {
    "binding": Subresource(("create",), BINDINGS),
    "eviction": Subresource(("create",), EVICTIONS),
    "finalize": Subresource(("update",)),
    "scale": Subresource(_READ_AND_WRITE, SCALES),
    "token": Subresource(("create",), TOKEN_REQUESTS),
}


def subresource_named(name: str) -> Subresource:
    """What a subresource deals in; "" is the object itself."""
    return _SUBRESOURCES.get(name, Subresource())


def verbs_of(resource: Resource, subresource: str = "") -> tuple[str, ...]:
    """What may be done with a resource, or with one of its subresources, sorted."""
    if subresource:
        return subresource_named(subresource).verbs
    return _VERBS.get((resource.group, resource.plural), _EVERY_VERB)


def is_stored(resource: Resource) -> bool:
    """Are there objects of it? It is asked of every request, so nothing is compared field by field."""
    return (resource.group, resource.plural) not in _NOT_STORED


_RETURNS_DELETED = frozenset(
    {
        ("", "persistentvolumeclaims"),
        ("", "persistentvolumes"),
        ("", "pods"),
        ("", "podtemplates"),
        ("", "resourcequotas"),
        ("", "serviceaccounts"),
        ("", "services"),
        ("resource.k8s.io", "deviceclasses"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "resourceclaimtemplates"),
        ("resource.k8s.io", "resourceslices"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "volumeattachments"),
    }
)


def returns_deleted(resource: Resource) -> bool:
    """Whether DELETE answers with the object that is gone (or going) instead of a Status; of a collection never."""
    return (resource.group, resource.plural) in _RETURNS_DELETED
