"""The authorizer of a server: it follows the store, and modes are what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tonnage.apiserver.authorizer import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, RbacAuthorizer
from tonnage.apiserver.settings import authorization_mode
from tonnage.cli.apiserver import apiserver
from tonnage.documents.access.attributes import Attributes
from tonnage.errors import TonnageError
from tonnage.objects.document import Doc, encode
from tonnage.objects.users import User
from tonnage.store.store import Store

JANE, ROOT = User("jane"), User("root", groups=("system:masters",))
GET_PODS = Attributes(JANE, "get", resource="pods")
ROLE: Doc = {"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}
BINDING: Doc = {
    "metadata": {"name": "b"},
    "roleRef": {"kind": "ClusterRole", "name": "r"},
    "subjects": [{"kind": "User", "name": "jane"}],
}


async def test_what_is_stored_decides_from_the_moment_that_it_is(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "store")
    try:
        role = await store.create(CLUSTER_ROLES.key("", "r"), lambda revision: encode(ROLE))
        authorizer = RbacAuthorizer(store)
        assert not authorizer.authorize(GET_PODS).allowed
        await store.create(CLUSTER_ROLE_BINDINGS.key("", "b"), lambda revision: encode(BINDING))
        assert authorizer.authorize(GET_PODS).allowed
        none = {**ROLE, "rules": []}
        role = await store.update(role.key, lambda revision: encode(none), expected=role.revision)
        assert not authorizer.authorize(GET_PODS).allowed
        await store.delete(role.key, lambda revision: encode(none), expected=role.revision)
        assert authorizer.authorize(GET_PODS).reason == 'RBAC: clusterrole.rbac.authorization.k8s.io "r" not found'
    finally:
        await store.close()


async def test_an_object_that_makes_no_sense_gives_no_rights_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = await Store.open(tmp_path / "store")
    try:
        authorizer = RbacAuthorizer(store)
        await store.create(CLUSTER_ROLE_BINDINGS.key("", "b"), lambda revision: encode(BINDING))
        role = await store.create(CLUSTER_ROLES.key("", "r"), lambda revision: encode(ROLE))
        await store.update(role.key, lambda revision: b"[]", expected=role.revision)
        assert "gives no rights" in caplog.text
        assert not authorizer.authorize(GET_PODS).allowed
    finally:
        await store.close()


async def test_members_of_system_masters_are_not_judged(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "store")
    try:
        assert RbacAuthorizer(store).authorize(Attributes(ROOT, "frob", path="/x")).allowed
    finally:
        await store.close()


def test_the_modes_there_are() -> None:
    assert authorization_mode("RBAC") == "RBAC" and authorization_mode("AlwaysAllow") == "AlwaysAllow"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Node,RBAC", '"Node" is a mode of kube-apiserver\'s that is not served here'),
        ("Webhook", '"Webhook" is a mode of kube-apiserver\'s that is not served here'),
        ("rbac", '"rbac" is no mode'),
        ("", '"" is no mode'),
        ("RBAC,AlwaysAllow", '"RBAC,AlwaysAllow" is more than one mode'),
    ],
)
def test_what_is_no_mode_is_wrong_usage(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(TonnageError) as refused:
        authorization_mode(text)
    assert (refused.value.message, refused.value.hint) == (told, "write RBAC or AlwaysAllow")
    done = CliRunner().invoke(apiserver, ["--data-dir", str(tmp_path / "x"), "--authorization-mode", text])
    assert done.exit_code == 2 and told in done.output
    assert not (tmp_path / "x").exists()
