"""What every program may do at the API server, and why: one file of Kubernetes objects per program, and no other place.

    scheduler.yaml · provisioner.yaml · pools.yaml            what runs on a real cluster
    controllers.yaml · node.yaml · csi-driver.yaml · node-scaler.yaml · dashboard.yaml     the rest of `tonnage up`
    reader.yaml                                               people, and commands that only look

`tonnage up` creates them, manifests and the chart are made from them, and `doctor` asks for their rights. Tests check
that no right is missing and none is unused: docs/security-model.md.

A file holds a ServiceAccount, roles and their bindings; `tonnage-system` stands for the program's namespace. A role
that the program can do without, and its binding, have the annotation `tonnage.dev/right` with the name of what is lost.
The comment above a rule is its reason, which `doctor` shows; "advised:" means that something is missing without the
rule, while pods are still placed correctly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from tonnage.objects.document import Doc
from tonnage.objects.texts.yaml_text import documents

PROGRAMS: Final = (
    "scheduler", "provisioner", "controllers", "node", "csi-driver", "pools", "node-scaler", "dashboard", "reader",
)  # fmt: skip
OWN_NAMESPACE: Final = "tonnage-system"
"""In the files: the program's namespace."""
RIGHT: Final = "tonnage.dev/right"
"""The annotation of a role that can be left out, and of its binding."""
_ADVISED: Final = "advised: "
_ROLES: Final = ("ClusterRole", "Role")


@dataclass(frozen=True, slots=True)
class RoleRule:
    """One rule of a role: every verb on every resource of every group, or every verb on every path."""

    role: str
    namespace: str
    """Where it holds; empty is everywhere."""
    right: str
    """What is lost without its role; empty if the role is needed."""
    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Names of objects; empty is all of them."""
    urls: tuple[str, ...] = ()
    reason: str = ""
    is_needed: bool = True
    """Without it the program's promise does not hold; without another rule, what `reason` says is missing."""


def account_of(program: str) -> str:
    return f"tonnage-{program}"


def text_of(program: str) -> str:
    """A program's file. Raises ValueError for a program without one."""
    if program not in PROGRAMS:
        raise ValueError(f'there is no role file of "{program}"; there are: {", ".join(PROGRAMS)}')
    return files("tonnage.roles").joinpath(f"{program}.yaml").read_text(encoding="utf-8")


def documents_of(
    program: str, *, namespace: str = OWN_NAMESPACE, without: Collection[str] = (), prefix: str = ""
) -> tuple[Doc, ...]:
    """A program's objects in this namespace, `without` some rights; `prefix` is put before roles and bindings."""
    text = text_of(program).replace(f"namespace: {OWN_NAMESPACE}", f"namespace: {namespace}")
    found = [document.value for document in documents(text) if document.value is not None]
    kept = tuple(doc for doc in found if _right(doc) not in without or not _right(doc))
    if prefix:
        roles = {(doc["kind"], doc["metadata"]["name"]) for doc in kept if doc["kind"] in _ROLES}
        for doc in kept:
            if doc["kind"] != "ServiceAccount":
                doc["metadata"]["name"] = prefix + doc["metadata"]["name"]
            reference = doc.get("roleRef")
            if reference is not None and (reference["kind"], reference["name"]) in roles:
                reference["name"] = prefix + reference["name"]
    return kept


@cache
def rules_of(program: str, namespace: str = OWN_NAMESPACE) -> tuple[RoleRule, ...]:
    """Every rule of a program in this namespace, in the order of the file."""
    reasons = _reasons(text_of(program))
    return tuple(
        _rule(doc, rule, next(reasons))
        for doc in documents_of(program, namespace=namespace)
        if doc["kind"] in _ROLES
        for rule in doc["rules"]
    )


def _right(doc: Doc) -> str:
    annotations: dict[str, str] = doc["metadata"].get("annotations", {})
    return annotations.get(RIGHT, "")


def _rule(doc: Doc, rule: dict[str, Any], reason: str) -> RoleRule:
    metadata = doc["metadata"]
    return RoleRule(
        role=metadata["name"],
        namespace=metadata.get("namespace", ""),
        right=_right(doc),
        verbs=tuple(rule["verbs"]),
        groups=tuple(rule.get("apiGroups", ())),
        resources=tuple(rule.get("resources", ())),
        names=tuple(rule.get("resourceNames", ())),
        urls=tuple(rule.get("nonResourceURLs", ())),
        reason=reason.removeprefix(_ADVISED),
        is_needed=not _right(doc) and not reason.startswith(_ADVISED),
    )


def _reasons(text: str) -> Iterator[str]:
    """The comment above every rule, in order; empty for a rule without one."""
    said: list[str] = []
    for line in text.splitlines():
        words = line.strip()
        if words.startswith("#"):
            said.append(words.lstrip("# "))
            continue
        if words.startswith(("- apiGroups:", "- nonResourceURLs:")):
            yield " ".join(said)
        said = []
