"""The first steps once the API server serves: manifests, starter objects, the programs' accounts; wait for the nodes.

A fresh cluster gets the driver's CSIDriver and the class `pools`, with `--classes N` also `pools-2`, …, in one capacity
group. Objects are created only if missing: a person's changes stay. The CSIDriver's `tonnage.dev/pool-policy` follows
`--pool-policy`, unless it is `unknown`. In a restarted cluster, cordons, taints and faults still hold, and their nodes
are not waited for.

Every program has a ServiceAccount, the rights of its role file, and a renewed token. Roles and bindings are those of
`tonnage.roles`, prefixed `tonnage-up:`, so that the chart's can stand beside them. Rights that a program's command line
does not need are left out, and removed again. A token lasts three days and is renewed after six hours, checked every
minute by the wall clock: when a laptop wakes after a week, the programs get 401, the next check writes new tokens, and
the clients read the file again. Deleted accounts are recreated likewise.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Self

from tonnage import logs, private_files
from tonnage.client.config import kubeconfig
from tonnage.client.errors import Disconnected
from tonnage.client.http import Client
from tonnage.clock import Clock, jittered, parse_rfc3339, within
from tonnage.driver import DRIVER_NAME
from tonnage.errors import AlreadyExists, ApiError, Invalid, NotFound, TonnageError
from tonnage.faults import Fault, FaultFile
from tonnage.objects import codec, core_v1, requirements, storage_v1
from tonnage.objects.document import Doc, encode
from tonnage.objects.resources import BY_KIND, BY_PLURAL, Resource
from tonnage.objects.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass
from tonnage.objects.texts.yaml_writer import write_yaml
from tonnage.plane.settings import ClusterShape, CommandLines, PlaneSettings
from tonnage.roles import account_of, documents_of

NAMESPACE: Final = "kube-system"
PREFIX: Final = "tonnage-up:"
LIFETIME_S: Final = 72 * 3600
RENEW_AFTER: Final = 1 / 12
"""The part of its life after which a token is renewed: a cluster stopped for two days can continue at once."""
_CHECK_TOKENS_S: Final = 60.0
MANAGER: Final = "tonnage-up"
_ACCOUNTS: Final = BY_PLURAL["", "serviceaccounts"]
_RBAC: Final = "rbac.authorization.k8s.io"
_BY_KIND: Final[Mapping[str, Resource]] = {
    "ServiceAccount": _ACCOUNTS,
    "ClusterRole": BY_PLURAL[_RBAC, "clusterroles"],
    "ClusterRoleBinding": BY_PLURAL[_RBAC, "clusterrolebindings"],
    "Role": BY_PLURAL[_RBAC, "roles"],
    "RoleBinding": BY_PLURAL[_RBAC, "rolebindings"],
}

_log = logs.logger("tonnage.up")
ObjectKey = tuple[str, str]
"""An object's kind, and namespace/name."""


@dataclass(frozen=True, slots=True)
class Token:
    made_at: datetime
    expires_at: datetime
    account_uid: str

    def is_due(self, now: datetime) -> bool:
        """True if the token should be renewed. A clock that was set back does not prolong a token."""
        return not self.made_at <= now < self.made_at + (self.expires_at - self.made_at) * RENEW_AFTER


def needless_rights(program: str, args: Sequence[str]) -> set[str]:
    """The rights that a program with this command line never uses."""
    needless = set()
    if not any(each.startswith(("--leader-elect", "--leader-election")) for each in args):
        needless |= {"leader-election", "only-scheduler"}
    if "--unauthenticated-on-loopback" in args:
        needless.add("serving")
    if program == "csi-driver" and "--lvm-nodes" not in args:
        needless.add("lvm-nodes")
    return needless


def wanted_objects(commands: Mapping[str, Sequence[str]]) -> dict[ObjectKey, Doc]:
    """The objects that programs with these command lines need."""
    return {
        _key(doc): doc
        for program, args in commands.items()
        for doc in documents_of(program, namespace=NAMESPACE, without=needless_rights(program, args), prefix=PREFIX)
    }


def missing_or_changed(wanted: Mapping[ObjectKey, Doc], found: Mapping[ObjectKey, Doc]) -> list[Doc]:
    """The wanted objects that are missing or differ."""
    fields = ("rules", "roleRef", "subjects")
    return [
        doc
        for key, doc in wanted.items()
        if key not in found or any(_plain(doc.get(name)) != _plain(found[key].get(name)) for name in fields)
    ]


def needless_objects(wanted: Mapping[ObjectKey, Doc], found: Mapping[ObjectKey, Doc]) -> list[ObjectKey]:
    """Objects with our prefix that are no longer wanted; bindings first, because they grant the rights."""
    ours = [key for key in found if key not in wanted and key[1].rpartition("/")[2].startswith(PREFIX)]
    return sorted(ours, key=lambda key: not key[0].endswith("Binding"))


def kubeconfig_of(server: str, ca_pem: bytes, program: str) -> Doc:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca_pem).decode()}
    account = account_of(program)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tonnage", "cluster": cluster}],
        "users": [{"name": account, "user": {"tokenFile": f"{program}.token"}}],
        "contexts": [{"name": "tonnage", "context": {"cluster": "tonnage", "user": account, "namespace": NAMESPACE}}],
        "current-context": "tonnage",
    }


class Identities:
    """The identities of one cluster. `client` must have administrator rights."""

    def __init__(self, folder: Path, client: Client, *, ca_pem: bytes, clock: Clock, rng: random.Random) -> None:
        self._folder = folder
        self._client = client
        self._ca_pem = ca_pem
        self._clock = clock
        self._rng = rng
        self._commands: dict[str, Sequence[str]] = {}
        self._tokens: dict[str, Token] = {}

    def kubeconfig(self, program: str) -> Path:
        return self._folder / f"{program}.kubeconfig"

    async def ensure(self, commands: Mapping[str, Sequence[str]]) -> None:
        """Create the programs' accounts, roles, bindings, tokens and kubeconfigs. Raises TonnageError."""
        self._commands = dict(commands)
        private_files.own_folder(self._folder)
        for program in commands:
            config = kubeconfig_of(self._client.server, self._ca_pem, program)
            private_files.write_private(self.kubeconfig(program), write_yaml(config).encode(), durable=False)
        await self._ensure_objects()
        await asyncio.gather(*(self._renew(program) for program in commands))

    async def keep(self) -> None:
        """Renew tokens and recreate deleted accounts until cancelled. Failures are retried."""
        complaint = ""
        while True:
            await self._clock.sleep(jittered(_CHECK_TOKENS_S, 0.1, self._rng))
            try:
                await self.look()
                complaint = ""
            except TonnageError as exc:
                if exc.message != complaint:  # a server that is away would be logged every minute
                    complaint = exc.message
                    _log.warning("The tokens of programs cannot be renewed now", error=complaint)
            except Exception:
                _log.exception("The tokens of programs cannot be renewed now")

    async def look(self) -> None:
        """Renew the tokens that are due, and recreate deleted accounts. Raises TonnageError."""
        now = self._clock.now()
        found = await self._client.list_docs(_ACCOUNTS, namespace=NAMESPACE)
        uids = {doc["metadata"]["name"]: doc["metadata"]["uid"] for doc in found}
        lost = [token for token in self._tokens if uids.get(account_of(token)) != self._tokens[token].account_uid]
        if lost:
            _log.warning("Accounts of programs were deleted; they are made again", programs=", ".join(lost))
            await self._ensure_objects()
        due = [token for token in self._tokens if token in lost or self._tokens[token].is_due(now)]
        await asyncio.gather(*(self._renew(each) for each in due))
        if due:
            _log.info("Renewed tokens", programs=", ".join(due))

    async def _ensure_objects(self) -> None:
        listed = await asyncio.gather(
            *(
                self._client.list_docs(resource, namespace=NAMESPACE if resource is _ACCOUNTS else "")
                for resource in _BY_KIND.values()
            )
        )
        found = {(kind, _name(doc)): doc for kind, docs in zip(_BY_KIND, listed, strict=True) for doc in docs}
        wanted = wanted_objects(self._commands)
        await asyncio.gather(
            *(self._apply(doc) for doc in missing_or_changed(wanted, found)),
            *(self._delete(key) for key in needless_objects(wanted, found)),
        )

    async def _apply(self, doc: Doc) -> None:
        try:
            await _apply(self._client, doc)
        except TonnageError as exc:
            if not doc["kind"].endswith("Binding") or not isinstance(exc.__cause__, Invalid):
                raise
            await self._delete(_key(doc))  # a roleRef cannot be changed
            await self._client.create_doc(doc)

    async def _delete(self, key: ObjectKey) -> None:
        try:
            await self._client.delete(_BY_KIND[key[0]], key[1])
        except NotFound:
            return

    async def _renew(self, program: str) -> None:
        """Request a token, and write it where the program reads it."""
        account = account_of(program)
        path = f"{_ACCOUNTS.path(NAMESPACE)}/{account}/token"
        request: Doc = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFETIME_S},
        }
        made_at = self._clock.now()
        answer, owner = await asyncio.gather(
            self._client.raw("POST", path, encode(request)),
            self._client.get_doc(_ACCOUNTS, f"{NAMESPACE}/{account}"),
        )
        status = codec.read_doc("TokenRequest", answer)["status"]
        private_files.write_private(self._folder / f"{program}.token", status["token"].encode(), durable=False)
        expires_at = parse_rfc3339(status["expirationTimestamp"])
        expires_at = max(expires_at, made_at + timedelta(seconds=1))
        self._tokens[program] = Token(made_at, expires_at, owner["metadata"]["uid"])


async def _apply(client: Client, doc: Doc) -> None:
    """Apply a document as `MANAGER`. Raises TonnageError."""
    metadata, resource = doc["metadata"], BY_KIND[doc["apiVersion"], doc["kind"]]
    key = f"{metadata['namespace']}/{metadata['name']}" if resource.namespaced else metadata["name"]
    try:
        await client.patch_doc(resource, key, doc, patch_type="apply", field_manager=MANAGER, force=True)
    except ApiError as exc:
        raise TonnageError(f"{doc['kind']} {key} cannot be applied: {exc.message}", hint=exc.hint) from exc


def _key(doc: Doc) -> ObjectKey:
    return str(doc["kind"]), _name(doc)


def _name(doc: Doc) -> str:
    metadata = doc["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def _plain(value: object) -> object:
    """Rules and subjects without the server's default, an empty apiGroup."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items() if (name, each) != ("apiGroup", "")}
    return value


CLASS: Final = "pools"
GROUP: Final = "pools"

_DRIVER: Final[Doc] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": DRIVER_NAME},
    "spec": {
        "attachRequired": True,
        "podInfoOnMount": True,
        "storageCapacity": True,
        "volumeRebuilding": True,
        # The API's minimum: on a laptop one wants to see limits follow.
        "nodeAllocatableUpdatePeriodSeconds": 10,
    },
}


def class_names(classes: int) -> list[str]:
    """`pools`, `pools-2`, …"""
    return [CLASS, *(f"{CLASS}-{number}" for number in range(2, classes + 1))]


def starter_objects(classes: int, pool_policy: str = "") -> list[Doc]:
    driver = _DRIVER
    if pool_policy:
        driver = {**_DRIVER, "metadata": {"name": DRIVER_NAME, "annotations": {storage_v1.POOL_POLICY: pool_policy}}}
    return [driver, *(_class(name, is_grouped=classes > 1) for name in class_names(classes))]


def _class(name: str, *, is_grouped: bool) -> Doc:
    annotations = {storage_v1.SIZE_RULES: "step=4Ki"}  # of the driver, as `tonnage driver-check --measure` tells
    if name == CLASS:
        annotations["storageclass.kubernetes.io/is-default-class"] = "true"
    if is_grouped:
        annotations[storage_v1.CAPACITY_GROUP] = GROUP
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": DRIVER_NAME,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": True,
    }


async def ensure_starter_objects(client: Client, classes: int = 1, pool_policy: str = "") -> None:
    """Create missing objects. When a cluster with one class gets more, the first joins their capacity group, once."""
    created = set()
    for doc in starter_objects(classes, pool_policy):
        with suppress(AlreadyExists):
            await client.create_doc(doc)
            created.add(doc["metadata"]["name"])
    if pool_policy and DRIVER_NAME not in created:
        driver = await client.get(CSIDriver, DRIVER_NAME)
        if driver.pool_policy not in (pool_policy, "unknown"):
            await client.patch(
                CSIDriver, DRIVER_NAME, {"metadata": {"annotations": {storage_v1.POOL_POLICY: pool_policy}}}
            )
    if CLASS not in created and created & set(class_names(classes)):
        first = await client.get(StorageClass, CLASS)
        if not first.capacity_group:
            await client.patch(StorageClass, CLASS, {"metadata": {"annotations": {storage_v1.CAPACITY_GROUP: GROUP}}})


_LIFECYCLE_TAINTS: Final = frozenset({requirements.NOT_READY, requirements.UNREACHABLE})
"""The taints that the node lifecycle controller removes from a live node; all others were set on request."""
_IDLE: Final = frozenset({"node-stopped", "node-removed"})


def expected_nodes(names: Sequence[str], faults: Iterable[Fault]) -> list[str]:
    """The nodes that will register: all but those that a fault has stopped or removed."""
    idle = {fault.node for fault in faults if fault.kind in _IDLE}
    return [] if "" in idle else [name for name in names if name not in idle]


def is_ready(node: core_v1.Node | None) -> bool:
    """True if the node is Ready and has no taint of the node lifecycle controller."""
    if node is None or any(taint.key in _LIFECYCLE_TAINTS for taint in node.spec.taints):
        return False
    return node.is_ready


_READY_WITHIN_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The bootstrap of one cluster. `client` must have administrator rights."""

    settings: PlaneSettings
    shape: ClusterShape
    client: Client
    identities: Identities
    clock: Clock

    @classmethod
    def connect(cls, settings: PlaneSettings, commands: CommandLines, *, clock: Clock, rng: random.Random) -> Self:
        connection = kubeconfig.load(settings.kubeconfig)
        client = Client.connect(connection, clock=clock, rng=rng, user_agent="tonnage-up")
        identities = Identities(commands.identities, client, ca_pem=connection.cluster.ca_pem, clock=clock, rng=rng)
        return cls(settings, commands.shape, client, identities, clock)

    async def apply(self, manifests: Sequence[Doc]) -> None:
        """Apply the manifests in order. Raises TonnageError."""
        for doc in manifests:
            await _apply(self.client, doc)

    async def prepare(self, commands: Mapping[str, Sequence[str]]) -> None:
        """Create the driver's objects and classes, and the programs' accounts, rights and tokens."""
        await asyncio.gather(
            ensure_starter_objects(self.client, self.shape.classes, self.shape.pool_policy),
            self.identities.ensure(commands),
        )

    async def wait_for_nodes(self) -> None:
        """Wait until every expected node is ready, and capacity is published for all of them, of every class."""
        try:
            await within(self.clock, _READY_WITHIN_S, self._until_ready())
        except TimeoutError:
            raise TonnageError(
                f"the nodes are not ready after {_READY_WITHIN_S:g} s",
                hint=f"read {self.settings.data_dir / 'logs'}",
            ) from None
        present = [node.name for node in (await self.client.list(core_v1.Node)).items]
        for name in self.shape.former_nodes(present):
            _log.warning(
                "No program runs this node any more; its pods and volumes go elsewhere once it is deleted", node=name
            )

    async def _until_ready(self) -> None:
        while True:
            try:
                nodes = {node.name: node for node in (await self.client.list(core_v1.Node)).items}
                expected = expected_nodes(self.shape.node_names, FaultFile(self.settings.faults).all())
                published = await self.client.list(
                    CSIStorageCapacity, label_selector=f"csi.storage.k8s.io/drivername={DRIVER_NAME}"
                )
                is_published = len(published.items) >= len(expected) * self.shape.classes
                if is_published and all(is_ready(nodes.get(name)) for name in expected):
                    return
            except Disconnected as exc:
                _log.debug("The server is away", error=exc.message)
            await self.clock.sleep(_LOOK_EVERY_S)
