"""The API server: its version, its gates as far as they show, what could not be read, and what the scheduler may not do
there.

The last is one finding a resource, from the answers to SelfSubjectAccessReviews.
"""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.gates import Gates
from tonnage.whatif.doctor.facts import FactAnswer, Facts, GrantedAccess
from tonnage.whatif.doctor.findings import CATALOGUE, Finding
from tonnage.whatif.page import named

_OLDEST = (1, 24)
"""The first with storage.k8s.io/v1 CSIStorageCapacity."""
_WORDS = {FactAnswer.YES: "on", FactAnswer.NO: "off", FactAnswer.UNKNOWN: "unknown"}


def server_findings(facts: Facts) -> Iterator[Finding]:
    server = facts.server
    if server is not None:
        yield from _version(facts)
        if server.gates:
            yield _gates(facts)
        yield from _beyond(facts)
    for kind, why in facts.unlisted.items():
        yield CATALOGUE["kind-not-listed"].about(
            kind,
            f"objects of this kind count as none: {why}",
            f'allow "list" and "watch" of {kind} objects to the user of this kubeconfig',
        )


def _version(facts: Facts) -> Iterator[Finding]:
    server = facts.server
    if server is None or not server.version:
        return
    about = f"Server {facts.source}"
    yield CATALOGUE["api-server-version"].about(about, f"it is Kubernetes {server.version}", "nothing has to be done")
    if (0, 0) < (server.major, server.minor) < _OLDEST:
        yield CATALOGUE["api-server-too-old"].about(
            about,
            f"Kubernetes {server.version} has no storage.k8s.io/v1 CSIStorageCapacity, and no capacity is known",
            f"upgrade to Kubernetes {_OLDEST[0]}.{_OLDEST[1]} or later",
        )


def _gates(facts: Facts) -> Finding:
    server = facts.server
    gates = server.gates if server is not None else {}
    by_state: dict[FactAnswer, list[str]] = {}
    for name, sign in sorted(gates.items()):
        by_state.setdefault(sign.is_on, []).append(name)
    told = "; ".join(f"{_WORDS[state]}: {', '.join(names)}" for state, names in sorted(by_state.items(), reverse=True))
    remedy = "nothing has to be done: what the server drops, Tonnage keeps in annotations"
    if facts.is_on("MutablePVNodeAffinity") is not FactAnswer.YES:
        remedy += "; volumes are rebuilt elsewhere only with MutablePVNodeAffinity=true on the API server"
    return CATALOGUE["feature-gates"].about(f"Server {facts.source}", told, remedy)


def _beyond(facts: Facts) -> Iterator[Finding]:
    """The gates of `tonnage scheduler` by which its placements differ from those of this cluster's kube-scheduler."""
    server = facts.server
    if server is None or (server.major, server.minor) == (0, 0):
        return
    beyond = Gates().on_beyond((server.major, server.minor))
    release = f"{server.major}.{server.minor}"
    told = f"on by default in Tonnage and off in kube-scheduler {release}: {', '.join(beyond)}"
    if "StorageCapacityScoring" in beyond:
        told += "; StorageCapacityScoring ranks nodes by their free storage, so that pods go to other nodes than before"
    off = ",".join(f"{gate}=false" for gate in beyond)
    remedy = f"nothing has to be done; to place pods as before: tonnage scheduler --feature-gates {off}"
    yield CATALOGUE["gates-beyond-kube-scheduler"].about(f"Server {facts.source}", told, remedy)


def access_findings(facts: Facts) -> Iterator[Finding]:
    lacking: dict[tuple[str, str, str, bool], list[GrantedAccess]] = {}
    for each in facts.access:
        asked = each.permission
        if each.is_allowed is FactAnswer.NO:
            lacking.setdefault((asked.qualified, asked.namespace, asked.name, asked.is_needed), []).append(each)
    for (resource, namespace, name, is_needed), found in lacking.items():
        verbs = [each.permission.verb for each in found]
        where = (f" {name}" if name else "") + (f" in {namespace}" if namespace else "")
        names = f'resourceNames: ["{name}"], ' if name else ""
        purposes = "; ".join(dict.fromkeys(each.permission.purpose for each in found))
        group = found[0].permission.group
        bare = resource.replace(f".{group}", "", 1) if group else resource
        yield CATALOGUE["permission-missing" if is_needed else "permission-advised"].about(
            f"{'Role' if namespace else 'ClusterRole'} {resource}",
            f"this user may not {' or '.join(verbs)} {resource}{where}: {purposes}",
            f'add the rule {{apiGroups: ["{group}"], resources: ["{bare}"], {names}verbs: {_listed(verbs)}}}'
            + (f" in namespace {namespace}" if namespace else "")
            + " to the role that Tonnage's scheduler runs with (deploy/ has all of them)",
        )
    unknown = [each for each in facts.access if each.is_allowed is FactAnswer.UNKNOWN]
    if unknown:
        yield CATALOGUE["permission-unknown"].about(
            f"Server {facts.source}",
            f"{len(unknown)} of {len(facts.access)} permissions could not be asked for "
            f"({named([f'{each.permission.verb} {each.permission.qualified}' for each in unknown])}): {unknown[0].why}",
            "allow this user to create selfsubjectaccessreviews.authorization.k8s.io (the role system:basic-user does)",
        )


def _listed(verbs: list[str]) -> str:
    return "[" + ", ".join(f'"{verb}"' for verb in verbs) + "]"
