"""Roles over the life of a server: what it begins with, what it mends, what gathers from what."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from support.eventually import eventually_async
from tonnage.apiserver.authorizer import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from tonnage.apiserver.requests import Location, WriteOptions
from tonnage.apiserver.server import Server, ServerSettings, serve
from tonnage.documents.access.attributes import Attributes
from tonnage.objects.document import Doc, decode
from tonnage.objects.resources import BY_PLURAL
from tonnage.objects.users import User

OPTIONS = WriteOptions(manager="test")
MAPS = BY_PLURAL["", "configmaps"]


def served(folder: Path, **settings: Any) -> Any:
    return serve(ServerSettings(data_dir=folder, port=0, **settings))


def role(server: Server, name: str) -> Doc:
    doc: Doc = decode(server.registry.read(Location(CLUSTER_ROLES, "", name)).document)
    return doc


def revisions(server: Server) -> dict[str, int]:
    """Of every role and binding, the revision at which it was last written."""
    kinds = (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
    records = [record for kind in kinds for record in server.registry.store.list(kind.store_prefix)]
    return {record.key: record.revision for record in records}


async def write(server: Server, name: str, **fields: Any) -> None:
    meta = {"name": name, "labels": fields.pop("labels", {})}
    doc = {"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": meta, **fields}
    await server.registry.create(Location(CLUSTER_ROLES), doc, OPTIONS)


def verbs_of(server: Server, name: str) -> list[str]:
    return [rule["verbs"][0] for rule in role(server, name).get("rules", ())]


async def gathers(server: Server, name: str, verbs: list[str]) -> None:
    """Wait until a role has the rules with these verbs."""
    await eventually_async(lambda: verbs_of(server, name), f"{name} to gather", holds=lambda found: found == verbs)


def rule(verb: str) -> Doc:
    return {"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}


async def test_what_is_missing_is_mended_by_the_next_start_and_what_was_added_stays(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        registry = server.registry

        def changed(doc: Doc) -> Doc:
            return {**doc, "rules": [rule("frob")]}

        await registry.change(Location(CLUSTER_ROLES, "", "system:volume-scheduler"), changed, OPTIONS)
        await registry.remove(Location(CLUSTER_ROLES, "", "view"))
        await registry.remove(Location(CLUSTER_ROLE_BINDINGS, "", "system:discovery"))
    async with served(tmp_path) as server:
        mended = role(server, "system:volume-scheduler")["rules"]
        assert mended[0] == rule("frob") and len(mended) > 5
        assert len(role(server, "view")["rules"]) > 10
        asked = Attributes(User("u", groups=("system:authenticated",)), "get", path="/api")
        assert server.registry.authorizer.authorize(asked).allowed
        settled = revisions(server)
    async with served(tmp_path) as server:
        assert revisions(server) == settled  # nothing is written that is there already


async def test_roles_that_gather_follow_those_that_they_gather_from(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        first = {"clusterRoleSelectors": [{"matchLabels": {"to": "first"}}]}
        second = {"clusterRoleSelectors": [{"matchLabels": {"to": "second"}}]}
        await write(server, "second", aggregationRule=second, rules=[rule("mine")])
        await write(server, "first", aggregationRule=first, labels={"to": "second"})
        await write(server, "b", labels={"to": "first"}, rules=[rule("list"), rule("get")])
        await write(server, "a", labels={"to": "first"}, rules=[rule("get")])
        await gathers(server, "second", ["get", "list"])
        await server.registry.remove(Location(CLUSTER_ROLES, "", "b"))
        await gathers(server, "second", ["get"])
        await server.registry.remove(Location(CLUSTER_ROLES, "", "a"))
        await gathers(server, "second", [])


async def test_roles_that_gather_from_one_another_come_to_rest(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for name, other in (("x", "y"), ("y", "x")):
            selectors = {"clusterRoleSelectors": [{"matchLabels": {"is": other}}]}
            await write(server, name, aggregationRule=selectors, labels={"is": name}, rules=[rule(name)])
        await write(server, "z", labels={"is": "x"}, rules=[rule("z")])
        await eventually_async(lambda: "z" in verbs_of(server, "y"), "what one has to reach the other")


async def test_how_the_server_authenticates_is_told_and_told_again(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        key = MAPS.key("kube-system", "extension-apiserver-authentication")
        published = partial(server.registry.store.get, key)
        record = await eventually_async(published, "the ConfigMap")
        assert decode(record.document)["data"] == {"client-ca-file": server.ca_pem.decode()}
        await server.registry.remove(Location(MAPS, "kube-system", "extension-apiserver-authentication"))
        record = await eventually_async(published, "the ConfigMap to be made anew")
        assert decode(record.document)["data"] == {"client-ca-file": server.ca_pem.decode()}


async def test_a_server_that_always_allows_judges_nobody(tmp_path: Path) -> None:
    async with served(tmp_path, authorization_mode="AlwaysAllow") as server:
        assert server.registry.authorizer.authorize(Attributes(User("u"), "frob", resource="pods")).allowed
        assert len(role(server, "view")["rules"]) > 10
