"""The identities of a cluster's programs: a ServiceAccount each, the rights of its role file, and a renewed token.

Roles and bindings are those of `tonnage.roles`, prefixed `tonnage-up:`, so that the chart's can stand beside them.
Rights that a program's command line does not need are left out, and removed again. A token lasts three days and is
renewed after six hours, checked every minute by the wall clock: when a laptop wakes after a week, the programs get 401,
the next check writes new tokens, and the clients read the file again. Deleted accounts are recreated likewise.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from tonnage import logs
from tonnage.backoff import jittered
from tonnage.client.http import Client
from tonnage.clock import Clock, parse_rfc3339
from tonnage.errors import ApiError, NotFound, TonnageError
from tonnage.objects.codec import read_doc
from tonnage.objects.document import Doc, encode
from tonnage.objects.resources import BY_PLURAL, Resource
from tonnage.objects.texts.yaml_writer import write_yaml
from tonnage.private_files import own_folder, write_private
from tonnage.roles import account_of, documents_of

NAMESPACE: Final = "kube-system"
PREFIX: Final = "tonnage-up:"
LIFETIME_S: Final = 72 * 3600
RENEW_AFTER: Final = 1 / 12
"""The part of its life after which a token is renewed: a cluster stopped for two days can continue at once."""
_LOOK_EVERY_S: Final = 60.0
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
        own_folder(self._folder)
        for program in commands:
            config = kubeconfig_of(self._client.server, self._ca_pem, program)
            write_private(self.kubeconfig(program), write_yaml(config).encode(), durable=False)
        await self._ensure_objects()
        await asyncio.gather(*(self._renew(program) for program in commands))

    async def keep(self) -> None:
        """Renew tokens and recreate deleted accounts until cancelled. Failures are retried."""
        complaint = ""
        while True:
            await self._clock.sleep(jittered(_LOOK_EVERY_S, 0.1, self._rng))
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
        kind, key = _key(doc)
        try:
            await self._client.patch_doc(
                _BY_KIND[kind], key, doc, patch_type="apply", field_manager=MANAGER, force=True
            )
        except ApiError as exc:
            if kind.endswith("Binding") and exc.code == 422:  # a roleRef cannot be changed
                await self._delete((kind, key))
                await self._client.create_doc(doc)
                return
            raise TonnageError(f"{kind} {key} cannot be applied: {exc.message}", hint=exc.hint) from exc

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
        status = read_doc("TokenRequest", answer)["status"]
        write_private(self._folder / f"{program}.token", status["token"].encode(), durable=False)
        expires_at = parse_rfc3339(status["expirationTimestamp"])
        expires_at = max(expires_at, made_at + timedelta(seconds=1))
        self._tokens[program] = Token(made_at, expires_at, owner["metadata"]["uid"])


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
