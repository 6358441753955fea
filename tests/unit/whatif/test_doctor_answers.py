"""What doctor recommends, what it says of permissions and gates, and the table of its names."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tonnage.client.config.connection import Impersonation, KubeconfigCluster, KubeconfigUser, ServerConnection
from tonnage.errors import Forbidden
from tonnage.objects.codec import resource_of
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import parse
from tonnage.scheduling.engine.event_handlers import READ_KINDS
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, driver, pod_with, storage_class, volume
from tonnage.whatif.doctor.capacity_checks import figures_of
from tonnage.whatif.doctor.facts import (
    CATALOGUE,
    WEAKER,
    Facts,
    GateSign,
    GrantedAccess,
    Permission,
    ServerFacts,
    own_account,
    scheduler_accounts,
    scheduler_permissions,
)
from tonnage.whatif.doctor.server import _scheduler_access, access_findings, gate_signs, server_findings
from tonnage.whatif.doctor.switch import Recommendation, recommendation_of

ROOT = Path(__file__).parents[3]
NOW = datetime(2026, 11, 1, tzinfo=UTC)
NODES = (node("n1"), node("n2"), node("n3"))


def recommended(*objects: Object) -> Recommendation:
    facts = Facts(objects, NOW)
    return recommendation_of(facts, figures_of(facts))


def settings(found: Recommendation) -> tuple[str, str, str]:
    return found.reservation, found.legacy_pools, found.pool_fit


# -- which settings fit -----------------------------------------------------------------------------------------------


def test_without_capacity_there_is_nothing_to_reserve():
    assert settings(recommended(*NODES, driver(capacity=False), storage_class())) == ("None", "Bounded", "Prefer")


def test_pools_and_pods_with_several_claims_are_told_about_guaranteed():
    pools = [*NODES, driver(), storage_class(), *(capacity(node=n.name, pools=["60Gi", "40Gi"]) for n in NODES)]
    assert settings(recommended(*pools)) == ("Ledger", "Bounded", "Prefer")
    several = [claim("a"), claim("b"), pod_with("p", "a", "b")]
    assert settings(recommended(*pools, *several)) == ("Ledger", "Bounded", "Prefer")
    why = recommended(*pools, *several).why["poolFit"]
    assert "default/p" in why and "Guaranteed leaves the last ones out" in why


def test_a_sum_larger_than_its_largest_volume_is_bounded():
    found = recommended(*NODES, driver(), storage_class(), capacity(node="n1", free="300Gi", maximum="100Gi"))
    assert settings(found) == ("Ledger", "Bounded", "Prefer")
    assert "Strict would refuse pods" in found.why["legacyPools"]


def test_sums_of_a_thin_driver_are_still_a_bound_and_what_would_weaken_it_is_said():
    sums = [capacity(node=n.name, free="100Gi") for n in NODES]
    found = recommended(*NODES, driver(), storage_class(), *sums, volume("pv", "90Gi", on="n1"))
    assert settings(found) == ("Ledger", "Bounded", "Prefer")
    assert found.why["legacyPools"].endswith(
        f"Independent, which checks each claim by itself, would let more pods in, {WEAKER}"
    )


@pytest.mark.parametrize("objects", [(), (driver(), storage_class(), capacity(node="n1", free="1Gi"))])
def test_the_file_is_one_that_the_scheduler_takes(objects):
    found = recommended(*NODES, *objects)
    configuration = parse(found.file, source="doctor")
    assert configuration.profiles[0].scheduler_name == "tonnage"
    assert configuration.leader_election.resource_name == "tonnage-scheduler"


# -- permissions ------------------------------------------------------------------------------------------------------


PERMISSIONS = scheduler_permissions()


def test_every_kind_that_decisions_read_is_listed_and_watched():
    assert len({(each.verb, each.qualified) for each in PERMISSIONS}) == len(PERMISSIONS)
    for verb in ("list", "watch"):
        asked = {(each.group, each.resource) for each in PERMISSIONS if each.verb == verb}
        assert asked == {(row.group, row.plural) for row in (resource_of(kind.cls) for kind in READ_KINDS)}


def test_every_write_of_the_live_scheduler_is_asked_for():
    """Writes stand in the programs as calls of the client; each kind of call has its permission."""
    source = ROOT / "src" / "tonnage"
    files = [*(source / "scheduler").glob("*.py"), source / "client" / "recorder.py", source / "client" / "leader.py"]
    text = "\n".join(path.read_text() for path in files)
    calls = set(re.findall(r"\b_?client\.(bind|evict|delete|create|update|create_doc|update_doc|patch)\(", text))
    assert calls == {"bind", "delete", "create", "create_doc", "update_doc", "patch"}
    writes = {(each.verb, each.qualified) for each in PERMISSIONS if each.verb not in ("list", "watch", "get")}
    assert writes == {
        ("create", "pods/binding"),
        ("patch", "pods/status"),
        ("delete", "pods"),
        ("patch", "persistentvolumeclaims"),
        ("patch", "persistentvolumes"),
        ("create", "events.events.k8s.io"),
        ("patch", "events.events.k8s.io"),
        ("create", "leases.coordination.k8s.io"),
        ("update", "leases.coordination.k8s.io"),
        ("create", "tokenreviews.authentication.k8s.io"),
        ("create", "subjectaccessreviews.authorization.k8s.io"),
    }


def test_what_is_asked_for_is_what_the_role_file_says_with_its_reason():
    binding = next(each for each in PERMISSIONS if each.subresource == "binding")
    assert (binding.purpose, binding.is_needed) == ("Pods are bound to nodes", True)
    lease = next(each for each in PERMISSIONS if (each.verb, each.resource) == ("update", "leases"))
    assert (lease.name, lease.namespace, lease.is_needed) == ("tonnage-scheduler", "kube-system", False)


def jwt(subject: str) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"sub": subject}).encode()).decode().rstrip("=")
    return f"e30.{claims}.c2ln"


@pytest.mark.parametrize(
    ("user", "account"),
    [
        (
            KubeconfigUser(token=jwt("system:serviceaccount:storage:tonnage-scheduler")),
            ("storage", "tonnage-scheduler"),
        ),
        (KubeconfigUser(token=jwt("kubernetes-admin")), None),
        (KubeconfigUser(token="not.a!.jwt"), None),
        (KubeconfigUser(token="plain"), None),
        (KubeconfigUser(), None),
        (KubeconfigUser(token_file=Path("/nowhere/token")), None),
        (KubeconfigUser(impersonation=Impersonation("system:serviceaccount:a:b"), token="plain"), ("a", "b")),
    ],
)
def test_who_asks_is_read_off_the_connection(user, account):
    assert own_account(ServerConnection(KubeconfigCluster("https://localhost"), user)) == account


def test_the_schedulers_account_is_that_of_its_pod_else_one_that_deploy_makes():
    runs = pod("s", namespace="sched", on="n1", spec={"serviceAccountName": "my-tonnage-scheduler"})
    other = pod("o", namespace="sched", on="n1", spec={"serviceAccountName": "volcano-scheduler"})
    usual = [("kube-system", "tonnage-scheduler"), ("tonnage-system", "tonnage-scheduler")]
    assert scheduler_accounts(None, [other]) == usual
    assert scheduler_accounts(("look", "tonnage-reader"), [other, runs]) == [
        ("sched", "my-tonnage-scheduler"),
        ("look", "tonnage-scheduler"),
        *usual,
    ]


class _Reviews:
    """An API server that answers access reviews: `granted` by user, "" is who asks; a missing user may nothing."""

    def __init__(self, granted: dict[str, bool], *, answers_subjects: bool = True) -> None:
        self.granted, self.answers_subjects = granted, answers_subjects

    async def raw(self, method: str, path: str, body: bytes) -> bytes:
        user = json.loads(body)["spec"].get("user", "")
        assert path.endswith("/subjectaccessreviews" if user else "/selfsubjectaccessreviews")
        if user and not self.answers_subjects:
            raise Forbidden("subjectaccessreviews is forbidden")
        return json.dumps({"status": {"allowed": self.granted.get(user, False)}}).encode()


ACCOUNT = "system:serviceaccount:tonnage-system:tonnage-scheduler"
READER = ("tonnage-system", "tonnage-reader")


@pytest.mark.parametrize(
    ("own", "server", "whose", "names"),
    [
        pytest.param(READER, _Reviews({ACCOUNT: True}), ACCOUNT, set(), id="a reader looks, the scheduler may all"),
        pytest.param(
            ("tonnage-system", "tonnage-scheduler"),
            _Reviews({}),
            "this user",
            {"permission-missing", "permission-advised"},
            id="the scheduler itself asks, and may nothing",
        ),
        pytest.param(READER, _Reviews({}), "this user", {"permission-unknown"}, id="there is no scheduler's account"),
        pytest.param(
            READER,
            _Reviews({ACCOUNT: True}, answers_subjects=False),
            "this user",
            {"permission-unknown"},
            id="a reader may not ask about others",
        ),
        pytest.param(
            None, _Reviews({"": True}), "this user", set(), id="an administrator, before anything is installed"
        ),
    ],
)
def test_rights_are_judged_by_the_schedulers_account_not_by_who_looks(own, server, whose, names):
    access_of, access = asyncio.run(_scheduler_access(server, own, []))
    assert access_of == whose
    found = list(access_findings(Facts((), NOW, access=access, access_of=access_of)))
    assert {each.name for each in found} == names


def test_an_account_that_lacks_some_rights_is_named_and_a_role_that_was_left_out_is_no_lack():
    class _Some(_Reviews):
        async def raw(self, method: str, path: str, body: bytes) -> bytes:
            asked = json.loads(body)["spec"]["resourceAttributes"]
            self.granted[ACCOUNT] = asked.get("subresource") != "binding" and asked["resource"] != "leases"
            return await super().raw(method, path, body)

    access_of, access = asyncio.run(_scheduler_access(_Some({}), READER, []))  # type: ignore[arg-type]
    (only,) = access_findings(Facts((), NOW, access=access, access_of=access_of))
    assert only.name == "permission-missing"
    assert only.message == f"{ACCOUNT} may not create pods/binding: Pods are bound to nodes"


def test_permissions_that_are_missing_are_told_by_resource_with_the_rule_that_gives_them():
    asked = [
        GrantedAccess(Permission("list", "storage.k8s.io", "csinodes", purpose="it is read"), False),
        GrantedAccess(Permission("watch", "storage.k8s.io", "csinodes", purpose="it is read"), False),
        GrantedAccess(Permission("create", "", "pods", "binding", purpose="pods are bound"), False),
        GrantedAccess(Permission("create", "events.k8s.io", "events", purpose="told", is_needed=False), False),
        GrantedAccess(Permission("get", "", "pods"), True),
    ]
    found = list(access_findings(Facts((), NOW, access=asked)))
    assert [(each.name, each.object) for each in found] == [
        ("permission-missing", "ClusterRole csinodes.storage.k8s.io"),
        ("permission-missing", "ClusterRole pods/binding"),
        ("permission-advised", "ClusterRole events.events.k8s.io"),
    ]
    assert '{apiGroups: ["storage.k8s.io"], resources: ["csinodes"], verbs: ["list", "watch"]}' in found[0].remedy
    assert '{apiGroups: [""], resources: ["pods/binding"], verbs: ["create"]}' in found[1].remedy
    assert 'resources: ["events"]' in found[2].remedy


def test_permissions_that_could_not_be_asked_for_are_one_finding():
    asked = [GrantedAccess(each, None, "it is forbidden") for each in PERMISSIONS]
    (only,) = access_findings(Facts((), NOW, access=asked))
    assert only.name == "permission-unknown" and "it is forbidden" in only.message


# -- the server -------------------------------------------------------------------------------------------------------

METRICS = """
# HELP kubernetes_feature_enabled …
kubernetes_feature_enabled{name="MutablePVNodeAffinity",stage="ALPHA"} 0
kubernetes_feature_enabled{name="MutableCSINodeAllocatableCount",stage=""} 1
"""
SCHEMAS: dict[str, Any] = {
    "io.k8s.api.storage.v1.CSIDriverSpec": {"properties": {"nodeAllocatableUpdatePeriodSeconds": {}}},
    "io.k8s.api.storage.v1.CSIStorageCapacity": {"properties": {"capacity": {}}},
}


def test_gates_are_read_off_metrics_then_objects_then_schemas():
    by_metrics = gate_signs(METRICS, {}, ())
    assert by_metrics["MutablePVNodeAffinity"].is_on is False
    assert by_metrics["MutableCSINodeAllocatableCount"].is_on is True
    by_schema = gate_signs("", SCHEMAS, ())
    assert by_schema["CSIStorageCapacityV2"].is_on is False
    assert by_schema["MutableCSINodeAllocatableCount"].is_on is None
    by_objects = gate_signs("", SCHEMAS, [driver(nodeAllocatableUpdatePeriodSeconds=60)])
    assert by_objects["MutableCSINodeAllocatableCount"].is_on is True
    assert {each.is_on for each in gate_signs("", {}, ()).values()} == {None}
    bound = pod("p", on="n1", status={"nominatedNodeName": "n1"})
    assert gate_signs("", {}, [bound])["ClearingNominatedNodeNameAfterBinding"].is_on is False


def test_a_server_from_before_a_gate_does_not_have_it():
    old = gate_signs("", {}, (), release=(1, 34))
    assert old["MutablePVNodeAffinity"] == GateSign(False, "Kubernetes 1.34 does not have it")
    assert old["MutableCSINodeAllocatableCount"].is_on is None  # it may be on or off there
    assert old["CSIStorageCapacityV2"].is_on is None  # no release has it; a server of others may
    assert gate_signs("", {}, (), release=(1, 35))["MutablePVNodeAffinity"].is_on is None


def test_an_old_server_and_kinds_that_cannot_be_listed_are_told():
    facts = Facts((), NOW, is_live=True, server=ServerFacts("v1.21.3", 1, 21), unlisted={"CSINode": "forbidden"})
    assert [each.name for each in server_findings(facts)] == [
        "api-server-version",
        "api-server-too-old",
        "gates-beyond-kube-scheduler",
        "kind-not-listed",
    ]


# -- names ------------------------------------------------------------------------------------------------------------


def test_every_name_is_in_kebab_case_and_used_by_a_check():
    source = "\n".join(path.read_text() for path in (ROOT / "src/tonnage/whatif/doctor").glob("*.py"))
    for name in CATALOGUE:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert f'"{name}"' in source, f"{name} is in the table, and no check finds it"


def test_the_documentation_lists_every_name_with_its_severity():
    text = (ROOT / "docs" / "reference" / "json.md").read_text()
    listed = dict(re.findall(r"^\| `([a-z-]+)` \| (error|warning|info) \|", text, re.MULTILINE))
    assert listed == {name: kind.severity.value for name, kind in CATALOGUE.items()}
