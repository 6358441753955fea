"""What doctor asks a live API server besides its objects, and what follows from the answers. Nothing is written.

    GET  /version                            the Kubernetes release
    GET  /metrics                            kubernetes_feature_enabled: which gates are on, if we may read it
    GET  /openapi/v3/apis/storage.k8s.io/v1  which fields the server knows
    POST SubjectAccessReview                 may the scheduler's account …? Nothing is stored
    POST SelfSubjectAccessReview             may this user …? Used if the scheduler's account is not found

A request without an answer is no failure: the fact stays unknown.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from tonnage.client.config.connection import ServerConnection
from tonnage.client.http import Client
from tonnage.errors import TonnageError
from tonnage.gates import Gate, Gates
from tonnage.keyed import grouped
from tonnage.objects import core_v1, meta, resources, storage_v1
from tonnage.objects.users import User, service_account_user
from tonnage.whatif.doctor import facts as doctor_facts
from tonnage.whatif.doctor.facts import CATALOGUE, Facts, Finding, GateSign, GrantedAccess, Permission
from tonnage.whatif.page import named

_STORAGE_SCHEMA: Final = "/openapi/v3/apis/storage.k8s.io/v1"
_PREFIX: Final = "io.k8s.api.storage.v1."
_FIELDS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "CSIStorageCapacityV2": (("CSIStorageCapacity", "availableCapacities"), ("CSIDriverSpec", "volumeRebuilding")),
    "MutableCSINodeAllocatableCount": (("CSIDriverSpec", "nodeAllocatableUpdatePeriodSeconds"),),
    "VolumeLimitScaling": (("CSIDriverSpec", "preventPodSchedulingIfMissing"),),
}
"""By gate: its fields. A server that does not know one of them cannot have the gate."""
_METRIC: Final = re.compile(r'^kubernetes_feature_enabled\{[^}]*\bname="([A-Za-z0-9]+)"[^}]*\} ([01])', re.MULTILINE)
_MOST_AT_ONCE: Final = 8
_LEFT_OUT: Final = {"leader-election", "serving"}
"""Permissions whose role is absent where a scheduler does not need it, as in `tonnage up`."""
_PATIENCE_S: Final = 15.0
"""Time limit of one request with its retries. The server has just listed its objects, so it is reachable."""


async def with_server(facts: Facts, connection: ServerConnection, *, user_agent: str) -> Facts:
    """The facts, with those about the server, and the scheduler's account with its permissions; unknown where nothing
    was answered."""
    async with Client.connect(connection, user_agent=user_agent) as client:
        version = await _read_json(client, "/version")
        metrics = await _read(client, "/metrics")
        schemas = (await _read_json(client, _STORAGE_SCHEMA)).get("components", {}).get("schemas", {})
        text = str(version.get("gitVersion", ""))
        major, minor = _number(version.get("major")), _number(version.get("minor"))
        gates = gate_signs(metrics, schemas, facts.objects, release=(major, minor))
        server = doctor_facts.ServerFacts(version=text, major=major, minor=minor, gates=gates)
        access_of, access = await _scheduler_access(client, doctor_facts.own_account(connection), facts.pods.values())
        return replace(facts, server=server, access_of=access_of, access=access)


async def _read(client: Client, path: str) -> str:
    """A page as text; empty if the server does not have it or refuses it."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return (await client.raw("GET", path)).decode(errors="replace")
    except (TonnageError, TimeoutError):
        return ""


async def _read_json(client: Client, path: str) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(await _read(client, path) or "{}")
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _number(told: object) -> int:
    """The number in `36` or in a hosted cluster's `36+`."""
    found = re.match(r"\d+", str(told))
    return int(found[0]) if found else 0


def gate_signs(
    metrics: str, schemas: Mapping[str, Any], objects: Iterable[meta.Object], *, release: tuple[int, int] = (0, 0)
) -> Mapping[str, GateSign]:
    """The state of each gate: from the server's metrics, else from fields that it keeps or does not know, else from a
    release before the gate; release (0, 0) is unknown."""
    told = {name: value == "1" for name, value in _METRIC.findall(metrics)}
    kept = _kept_fields(objects)
    found = {}
    for name, gate in Gates.table().items():
        if gate.successor:
            continue
        fields = _FIELDS.get(name, ())
        if name in told:
            sign = GateSign(told[name], "the server's metrics")
        elif name == "ClearingNominatedNodeNameAfterBinding" and "nominatedNodeName" in kept:
            sign = GateSign(False, "pods that are bound keep status.nominatedNodeName")
        elif any(field in kept for _, field in fields):
            sign = GateSign(True, f"it keeps {next(field for _, field in fields if field in kept)}")
        elif schemas and fields and not all(_has_field(schemas, kind, field) for kind, field in fields):
            sign = GateSign(False, f"it does not know {', '.join(field for _, field in fields)}")
        elif told:
            sign = GateSign(False, "the server's metrics do not name it")
        elif (0, 0) < release < _since(gate):
            sign = GateSign(False, f"Kubernetes {release[0]}.{release[1]} does not have it")
        else:
            sign = GateSign(None, "neither its metrics nor its objects show it")
        found[name] = sign
    return found


def _since(gate: Gate) -> tuple[int, int]:
    """The first release with the gate. A gate in no release may be in any custom build."""
    if not gate.releases:
        return (0, 0)
    major, minor = gate.releases[0][0].split(".")
    return int(major), int(minor)


def _has_field(schemas: Mapping[str, Any], kind: str, field: str) -> bool:
    found = schemas.get(f"{_PREFIX}{kind}")
    return isinstance(found, dict) and field in found.get("properties", {})


def _kept_fields(objects: Iterable[meta.Object]) -> set[str]:
    """Gates' fields that some object has: a server with the gate off drops them from new objects. The nomination of a
    bound pod is the opposite: with the gate on it is cleared."""
    found = set()
    for each in objects:
        if isinstance(each, core_v1.Pod) and each.spec.node_name and each.status.nominated_node_name:
            found.add("nominatedNodeName")
        if isinstance(each, storage_v1.CSIStorageCapacity) and each.available_capacities:
            found.add("availableCapacities")
        elif isinstance(each, storage_v1.CSIDriver):
            spec = each.spec
            if spec.volume_rebuilding:
                found.add("volumeRebuilding")
            if spec.node_allocatable_update_period_seconds is not None:
                found.add("nodeAllocatableUpdatePeriodSeconds")
            if spec.prevent_pod_scheduling_if_missing:
                found.add("preventPodSchedulingIfMissing")
    return found


async def _scheduler_access(
    client: Client, own: tuple[str, str] | None, pods: Iterable[core_v1.Pod]
) -> tuple[str, list[GrantedAccess]]:
    """The permissions of the scheduler's account. An account without any permission does not exist: then this user's
    permissions count, if they suffice for a scheduler; if not, they say nothing about the scheduler."""
    us = "this user"
    if own is not None and doctor_facts.is_scheduler_account(own[1]):
        return us, await _access(client, doctor_facts.scheduler_permissions(own[0]))
    why = "no account of Tonnage's scheduler was found"
    for namespace, name in doctor_facts.scheduler_accounts(own, pods):
        account = service_account_user(namespace, name)
        found = await _access(client, doctor_facts.scheduler_permissions(namespace), account)
        granted = {each.permission.right for each in found if each.is_allowed is True}
        if granted:
            left_out = _LEFT_OUT - granted
            return account.name, [each for each in found if each.permission.right not in left_out]
        if found[0].is_allowed is None:
            why = f"could not ask what the scheduler's account may do: {found[0].why}"
            break
    ours = await _access(
        client, doctor_facts.scheduler_permissions(own[0] if own is not None else doctor_facts.LEASE_NAMESPACE)
    )
    return us, [GrantedAccess(each.permission, None, why) if each.is_allowed is False else each for each in ours]


async def _access(
    client: Client, permissions: Iterable[Permission], account: User | None = None
) -> list[GrantedAccess]:
    slots = asyncio.Semaphore(_MOST_AT_ONCE)

    return list(await asyncio.gather(*(_may(client, each, account, slots) for each in permissions)))


async def _may(client: Client, permission: Permission, account: User | None, slots: asyncio.Semaphore) -> GrantedAccess:
    """Whether the account has the permission; without an account, whether we have it."""
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    reviews = resources.ACCESS_REVIEWS if account is None else resources.SUBJECT_ACCESS_REVIEWS
    review = {
        "apiVersion": reviews.api_version,
        "kind": reviews.kind,
        "spec": {
            **(account.review_spec() if account is not None else {}),
            "resourceAttributes": {name: value for name in names if (value := getattr(permission, name))},
        },
    }
    try:
        async with slots, asyncio.timeout(_PATIENCE_S):
            body = await client.raw("POST", reviews.path(), msgspec.json.encode(review))
        answer = msgspec.json.decode(body)
        status = answer["status"]
        return GrantedAccess(permission, bool(status["allowed"]), str(status.get("reason", "")))
    except TonnageError as exc:
        return GrantedAccess(permission, None, exc.message)
    except TimeoutError:
        return GrantedAccess(permission, None, f"no answer within {_PATIENCE_S:.0f} s")
    except (msgspec.DecodeError, KeyError, TypeError):
        return GrantedAccess(permission, None, f"the answer is no {reviews.kind}")


_OLDEST = (1, 24)


def server_findings(facts: Facts) -> Iterator[Finding]:
    server = facts.server
    if server is not None:
        about = f"Server {facts.source}"
        if server.version:
            yield from _version(server, about)
        if server.gates:
            yield _gates(server, about)
        if (server.major, server.minor) != (0, 0):
            yield _beyond(server, about)
    for kind, why in facts.unlisted.items():
        yield CATALOGUE["kind-not-listed"].about(
            kind,
            f"objects of this kind cannot be read and are ignored: {why}",
            f'allow "list" and "watch" of {kind} objects to the user of this kubeconfig',
        )


def _version(server: doctor_facts.ServerFacts, about: str) -> Iterator[Finding]:
    yield CATALOGUE["api-server-version"].about(about, f"it is Kubernetes {server.version}", "nothing to do")
    if (0, 0) < (server.major, server.minor) < _OLDEST:
        yield CATALOGUE["api-server-too-old"].about(
            about,
            f"Kubernetes {server.version} has no storage.k8s.io/v1 CSIStorageCapacity, and no capacity is known",
            f"upgrade to Kubernetes {_OLDEST[0]}.{_OLDEST[1]} or later",
        )


def _gates(server: doctor_facts.ServerFacts, about: str) -> Finding:
    by_state = grouped((sign.state, name) for name, sign in sorted(server.gates.items()))
    told = "; ".join(f"{each}: {', '.join(by_state[each])}" for each in ("on", "unknown", "off") if each in by_state)
    remedy = "nothing to do: what the server drops, Tonnage keeps in annotations"
    if server.is_on("MutablePVNodeAffinity") is not True:
        remedy += "; volumes are rebuilt elsewhere only with MutablePVNodeAffinity=true on the API server"
    return CATALOGUE["feature-gates"].about(about, told, remedy)


def _beyond(server: doctor_facts.ServerFacts, about: str) -> Finding:
    """The gates of `tonnage scheduler` by which its placements differ from those of this cluster's kube-scheduler."""
    beyond = Gates().on_beyond((server.major, server.minor))
    release = f"{server.major}.{server.minor}"
    told = f"on by default in Tonnage and off in kube-scheduler {release}: {', '.join(beyond)}"
    if "StorageCapacityScoring" in beyond:
        told += "; StorageCapacityScoring ranks nodes by their free storage, so that pods go to other nodes than before"
    off = ",".join(f"{gate}=false" for gate in beyond)
    remedy = f"nothing to do; tonnage scheduler --feature-gates {off} places pods as before"
    if "CSIStorageCapacityV2" in beyond:
        remedy += f", {doctor_facts.WEAKER}: pools are ignored, and what was promised is not held back"
    return CATALOGUE["gates-beyond-kube-scheduler"].about(about, told, remedy)


def access_findings(facts: Facts) -> Iterator[Finding]:
    refused = [each.permission for each in facts.access if each.is_allowed is False]
    lacking = grouped(((each.qualified, each.namespace, each.name, each.is_needed), each) for each in refused)
    for (resource, namespace, name, is_needed), found in lacking.items():
        verbs = [permission.verb for permission in found]
        listed = ", ".join(f'"{verb}"' for verb in verbs)
        where = (f" {name}" if name else "") + (f" in {namespace}" if namespace else "")
        names = f'resourceNames: ["{name}"], ' if name else ""
        purposes = "; ".join(dict.fromkeys(permission.purpose for permission in found))
        group = found[0].group
        bare = resource.replace(f".{group}", "", 1) if group else resource
        yield CATALOGUE["permission-missing" if is_needed else "permission-advised"].about(
            f"{'Role' if namespace else 'ClusterRole'} {resource}",
            f"{facts.access_of} may not {' or '.join(verbs)} {resource}{where}: {purposes}",
            f'add the rule {{apiGroups: ["{group}"], resources: ["{bare}"], {names}verbs: [{listed}]}}'
            + (f" in namespace {namespace}" if namespace else "")
            + " to the role that Tonnage's scheduler runs with (deploy/ has all of them)",
        )
    unknown = [granted_access for granted_access in facts.access if granted_access.is_allowed is None]
    if unknown:
        yield CATALOGUE["permission-unknown"].about(
            f"Server {facts.source}",
            f"it is not known whether the scheduler has {len(unknown)} of {len(facts.access)} permissions "
            f"({named([f'{each.permission.verb} {each.permission.qualified}' for each in unknown])}): {unknown[0].why}",
            "install the scheduler's account and roles (deploy/ has them), and let this user create "
            "subjectaccessreviews.authorization.k8s.io (the role tonnage-reader does); or ask with the scheduler's own "
            "kubeconfig",
        )
