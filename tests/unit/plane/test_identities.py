"""Who the programs of a cluster are: what is made for them, what is left out, and when a token is renewed."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tonnage.client.config import kubeconfig
from tonnage.objects.texts.yaml_writer import write_yaml
from tonnage.plane.bootstrap import (
    LIFETIME_S,
    RENEW_AFTER,
    Token,
    kubeconfig_of,
    missing_or_changed,
    needless_objects,
    needless_rights,
    wanted_objects,
)
from tonnage.private_files import write_private

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
LIFETIME = timedelta(seconds=LIFETIME_S)


@pytest.mark.parametrize(
    ("program", "args", "needless"),
    [
        ("scheduler", ["--no-leader-elect"], {"leader-election", "only-scheduler"}),
        ("scheduler", ["--leader-elect"], set()),
        ("scheduler", ["--leader-elect=true"], set()),
        ("scheduler", ["--leader-elect", "--unauthenticated-on-loopback"], {"serving"}),
        ("csi-driver", ["--rebuild"], {"leader-election", "only-scheduler", "lvm-nodes"}),
        ("csi-driver", ["--lvm-nodes", "openebs"], {"leader-election", "only-scheduler"}),
    ],
)
def test_what_a_command_line_never_asks_for_is_left_out(program: str, args: list[str], needless: set[str]) -> None:
    assert needless_rights(program, args) == needless


def test_roles_and_bindings_have_names_of_their_own_and_accounts_those_of_the_files() -> None:
    wanted = wanted_objects({"scheduler": ["--no-leader-elect"]})
    assert ("ServiceAccount", "kube-system/tonnage-scheduler") in wanted
    assert ("ClusterRole", "tonnage-up:tonnage-scheduler") in wanted
    binding = wanted["ClusterRoleBinding", "tonnage-up:tonnage-scheduler"]
    assert binding["roleRef"]["name"] == "tonnage-up:tonnage-scheduler"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "tonnage-scheduler", "namespace": "kube-system"}]
    assert not any("lease" in name for _, name in wanted)


def test_a_role_that_kubernetes_has_keeps_its_name() -> None:
    reader = wanted_objects({"scheduler": ["--leader-elect"]})[
        "RoleBinding", "kube-system/tonnage-up:tonnage-scheduler-serving"
    ]
    assert reader["roleRef"]["name"] == "extension-apiserver-authentication-reader"


def test_at_the_next_start_nothing_is_written() -> None:
    wanted = wanted_objects({"node": [], "provisioner": []})
    found = {key: {**doc, "metadata": {**doc["metadata"], "uid": "1"}} for key, doc in wanted.items()}
    for key, doc in found.items():
        if key[0].endswith("Binding"):  # as a server completes them
            doc["subjects"] = [{**each, "apiGroup": ""} for each in doc["subjects"]]
    assert missing_or_changed(wanted, found) == []
    assert needless_objects(wanted, found) == []


def test_what_is_missing_or_was_changed_is_written_again() -> None:
    wanted = wanted_objects({"node": []})
    found = dict(wanted)
    del found["ServiceAccount", "kube-system/tonnage-node"]
    found["ClusterRole", "tonnage-up:tonnage-node"] = {"metadata": {}, "rules": []}
    names = [doc["metadata"]["name"] for doc in missing_or_changed(wanted, found)]
    assert names == ["tonnage-node", "tonnage-up:tonnage-node"]


def test_rights_of_an_earlier_run_go_bindings_first_and_others_objects_stay() -> None:
    before = wanted_objects({"csi-driver": ["--lvm-nodes", "openebs"]})
    others: dict[tuple[str, str], dict[str, object]] = {
        ("ClusterRole", "tonnage-scheduler"): {},
        ("ClusterRole", "admin"): {},
    }
    name = "tonnage-up:tonnage-csi-driver-lvm-nodes"
    assert needless_objects(wanted_objects({"csi-driver": []}), {**others, **before}) == [
        ("ClusterRoleBinding", name),
        ("ClusterRole", name),
    ]


@pytest.mark.parametrize(
    ("age", "is_due"),
    [
        (timedelta(0), False),
        (timedelta(hours=5, minutes=59), False),
        (timedelta(hours=6), True),
        (timedelta(days=7), True),  # a laptop that slept
        (timedelta(hours=-1), True),  # a clock that was set back
    ],
)
def test_a_token_is_renewed_after_six_hours(age: timedelta, is_due: bool) -> None:
    assert Token(NOW, NOW + LIFETIME, "uid").is_due(NOW + age) is is_due


def test_a_clock_that_is_set_forward_by_a_day_makes_no_token_expire() -> None:
    longest = LIFETIME * RENEW_AFTER + timedelta(minutes=2)  # until it is looked at again
    assert longest + timedelta(days=1) < LIFETIME


def test_the_kubeconfig_names_the_token_file_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "node.kubeconfig"
    write_private(path, write_yaml(kubeconfig_of("https://127.0.0.1:6443", b"", "node")).encode())
    write_private(tmp_path / "node.token", b"t0ken")
    connection = kubeconfig.load(path)
    assert connection.user.token_file == tmp_path / "node.token"
    assert connection.namespace == "kube-system"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
