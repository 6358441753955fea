"""The CAs of client certificates: from files, else from the ConfigMap kube-system/extension-apiserver-authentication.

Both are read once a minute; if that fails, the last values stay.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.client.transport.wire import Request, Transport
from tonnage.clock import Backoff, Clock, in_background, jittered
from tonnage.errors import TonnageError

CONFIG_MAP: Final = "kube-system/extension-apiserver-authentication"
READER_ROLE: Final = "extension-apiserver-authentication-reader"
"""The Role in kube-system that lets a program read the ConfigMap; every Kubernetes cluster has it."""
_PATH: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_EVERY_S: Final = 60.0
_LOOKUP_S: Final = 5.0
"""How long the first lookup may delay the start."""
_MAX_PEM_BYTES: Final = 1 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FrontProxies:
    """Front proxies, whose headers name the user. Header names are in lower case; no `names`: any certificate."""

    ca_pem: bytes = b""
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)
    allowed_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuthoritySources:
    """Where to read the CAs. `front_proxies` has the flags' values, without the CA of `front_proxy_ca_file`."""

    client_ca_file: Path | None = None
    front_proxy_ca_file: Path | None = None
    front_proxies: FrontProxies = FrontProxies()
    looks_up: bool = True
    """CAs without a file are read from the ConfigMap."""
    tolerates_failure: bool = True
    """If the first lookup fails, go on with tokens only instead of ending the program."""


class FollowedAuthorities:
    """The CAs in use now; an empty one admits no certificate."""

    def __init__(self, sources: AuthoritySources, transport: Transport, *, clock: Clock, rng: random.Random) -> None:
        self.client_ca_pem = b""
        self.front_proxies = replace(sources.front_proxies, ca_pem=b"")
        self._sources = sources
        self._transport = transport
        self._looks_up = sources.looks_up and None in (sources.client_ca_file, sources.front_proxy_ca_file)
        self._clock = clock
        self._rng = rng
        self._told = ""

    @property
    def all_pem(self) -> bytes:
        return b"\n".join(filter(None, (self.client_ca_pem, self.front_proxies.ca_pem)))

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Read the CAs before the block begins, and again and again inside it. Raises TonnageError at the start."""
        self._read_files()
        if self._looks_up:
            try:
                async with asyncio.timeout(_LOOKUP_S):
                    await self._look_up()
            except (TonnageError, TimeoutError) as exc:
                self._failed(exc)
                if not self._sources.tolerates_failure:
                    raise TonnageError(
                        f"the ConfigMap {CONFIG_MAP} cannot be read: {_words(exc)}",
                        hint="give --client-ca-file and --requestheader-client-ca-file, or "
                        "--authentication-tolerate-lookup-failure",
                    ) from exc
        async with in_background(self._follow(), "authorities of clients"):
            yield

    async def _follow(self) -> None:
        backoff = Backoff(clock=self._clock, rng=self._rng, max_s=_EVERY_S)
        pause_s = _EVERY_S if not self._told else backoff.next_s()
        while True:
            await self._clock.sleep(jittered(pause_s, 0.1, self._rng))
            try:
                self._read_files()
                if self._looks_up:
                    await self._look_up()
            except TonnageError as exc:
                self._failed(exc)
                pause_s = backoff.next_s()
            else:
                self._told, pause_s = "", _EVERY_S
                backoff.reset()

    def _failed(self, exc: BaseException) -> None:
        """Log one line per cause, however often it fails."""
        told = _words(exc)
        if told != self._told:
            _log.warning("Client certificates are judged by what was known before, if anything: %s", told)
        self._told = told

    def _read_files(self) -> None:
        sources = self._sources
        if sources.client_ca_file is not None:
            self.client_ca_pem = _pem(sources.client_ca_file)
        if sources.front_proxy_ca_file is not None:
            self.front_proxies = replace(sources.front_proxies, ca_pem=_pem(sources.front_proxy_ca_file))

    async def _look_up(self) -> None:
        """Read the ConfigMap; entries that it no longer has, count no longer. Raises TonnageError."""
        answer = await self._transport.send(Request("GET", _PATH, timeout_s=_LOOKUP_S))
        if answer.code == 403:
            hint = f"bind the Role kube-system/{READER_ROLE} to it"
            raise TonnageError(f"this program may not read the ConfigMap {CONFIG_MAP}; {hint}")
        if answer.code not in (200, 404):
            raise TonnageError(f"GET {self._transport.server}{_PATH}: the answer is {answer.code}")
        data: Mapping[str, str] = {}
        if answer.code == 200:
            try:
                data = msgspec.json.decode(answer.body, type=_ConfigMap).data
            except (msgspec.DecodeError, ValueError) as exc:
                raise TonnageError(f"the ConfigMap {CONFIG_MAP} cannot be read") from exc
        if self._sources.client_ca_file is None:
            self.client_ca_pem = data.get("client-ca-file", "").encode()
        if self._sources.front_proxy_ca_file is None:
            self.front_proxies = front_proxies_of(data)


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


def front_proxies_of(data: Mapping[str, str]) -> FrontProxies:
    """The ConfigMap's front proxies. Raises TonnageError for malformed lists."""

    def listed(key: str) -> tuple[str, ...]:
        try:
            found: Any = msgspec.json.decode(data.get(f"requestheader-{key}", "").strip() or "[]", type=list[str])
        except (msgspec.DecodeError, ValueError) as exc:
            raise TonnageError(f"the ConfigMap {CONFIG_MAP}: requestheader-{key} is not a list of texts") from exc
        return tuple(found)

    def names(key: str) -> tuple[str, ...]:
        return tuple(each.lower() for each in listed(key))

    return FrontProxies(
        ca_pem=data.get("requestheader-client-ca-file", "").encode(),
        username_headers=names("username-headers"),
        uid_headers=names("uid-headers"),
        group_headers=names("group-headers"),
        extra_prefixes=names("extra-headers-prefix"),
        allowed_names=listed("allowed-names"),
    )


def _pem(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            found = file.read(_MAX_PEM_BYTES)
    except OSError as exc:
        raise TonnageError(f"the authority {path} cannot be read: {exc.strerror}") from exc
    if b"-----BEGIN CERTIFICATE-----" not in found:
        raise TonnageError(f"the authority {path} holds no certificate", hint="it is a PEM file")
    return found


def _words(exc: BaseException) -> str:
    return exc.message if isinstance(exc, TonnageError) else f"no answer within {_LOOKUP_S:g} s"
