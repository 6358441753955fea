"""Impersonation: the Impersonate-* headers, and who may send them.

    Impersonate-User: jo            may the requester impersonate users/jo? Then the request is jo's.

Since 1.36 five modes can allow it (KEP-5284), tried in this order until one does:

    associated-node   a ServiceAccount whose pod is on a node impersonates that node
    arbitrary-node    any node, by name alone             serviceaccount   a ServiceAccount, by name alone
    user-info         any other user, but never system:masters
    (legacy)          any user at all, by the verb `impersonate`

The first four modes check two rights: to do the request for another user (`impersonate-on:MODE:VERB`), and to be that
user (`impersonate:MODE`). If every mode refuses, the answer is the first mode's. Mirrors
apiserver/pkg/endpoints/filters/impersonation, without its caches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote_to_bytes

from tonnage.documents.access.attributes import Attributes, Authorizer, forbidden
from tonnage.documents.go_text import quoted
from tonnage.errors import BadRequest, Forbidden
from tonnage.objects import field_errors, names, users
from tonnage.objects.users import User

_PREFIX: Final = "impersonate-"
_USER, _UID, _GROUP, _EXTRA = "impersonate-user", "impersonate-uid", "impersonate-group", "impersonate-extra-"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
_NODE_KEYS: Final = "authentication.kubernetes.io/associated-node-keys"
_NODE_PREFIX: Final = "system:node:"
_API: Final = "authentication.k8s.io"
_MANY: Final = 4
"""From this many groups or values of extra fields on, the right to impersonate all of them is checked first."""
_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


def names_another(headers: Iterable[str]) -> bool:
    """True if a header may impersonate a user. Runs for every request, so it is one cheap test."""
    return _PREFIX in "\n".join(headers).lower()


def wanted_user(headers: Sequence[tuple[str, str]]) -> User | None:
    """The user that the headers name; None without such headers. Raises BadRequest for a user without a name."""
    name = uid = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    for header, value in headers:
        header = header.lower()
        if not header.startswith(_PREFIX):
            continue
        value = value.encode(errors="surrogateescape").decode(errors="replace")  # invalid UTF-8 matches no name
        if header == _USER:
            name = name or value
        elif header == _UID:
            uid = uid or value
        elif header == _GROUP:
            groups.append(value)
        elif header.startswith(_EXTRA):
            extra.setdefault(_unescaped(header.removeprefix(_EXTRA)), []).append(value)
    wanted = User(name, uid, tuple(groups), {key: tuple(values) for key, values in extra.items()})
    if name:
        return wanted
    if uid or groups or extra:
        raise BadRequest(f"requested {_go_user(wanted)} without impersonating a user name")
    return None


def impersonate(asked: Attributes, wanted: User, authorizer: Authorizer) -> User:
    """The user that makes the request from here on. Raises Forbidden."""
    first: Forbidden | None = None
    for mode, applies in _MODES:
        if not applies(wanted, asked.user):
            continue
        try:
            return _Attempt(mode, asked, wanted, authorizer).impersonated()
        except Forbidden as exc:
            first = first or exc
    assert first is not None, "the last mode applies to everybody"
    raise first


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One mode of impersonation; the legacy mode has no name."""

    mode: str
    asked: Attributes
    wanted: User
    authorizer: Authorizer

    def impersonated(self) -> User:
        if self.mode:
            self._check(replace(self.asked, verb=f"impersonate-on:{self.mode}:{self.asked.verb}"))
        user = self._by_name()
        if self.wanted.uid:
            self._check(self._about("uids", self.wanted.uid, group=_API))
        self._check_groups()
        self._check_extra()
        if user.name == users.ANONYMOUS:
            return _in_group(user, users.UNAUTHENTICATED)
        return user if users.UNAUTHENTICATED in user.groups else _in_group(user, users.AUTHENTICATED)

    def _by_name(self) -> User:
        user = self.wanted
        asked = self._about("users", user.name)
        node, account = _node_of(user.name), users.split_service_account(user.name)
        if self.mode and node:
            asked, user = replace(asked, resource="nodes", name=node), replace(user, groups=(users.NODES,))
        elif account is not None:
            asked = replace(asked, resource="serviceaccounts", namespace=account[0], name=account[1])
            if not user.groups:
                user = replace(user, groups=users.service_account_groups(account[0]))
        self._check(asked)
        return user

    def _check_groups(self) -> None:
        about, groups = self._about("groups", ""), self.wanted.groups
        if self.mode and "" in groups:
            raise forbidden(about, "impersonating the empty string group is not allowed")
        if self.mode and users.MASTERS in groups:
            raise forbidden(replace(about, name=users.MASTERS), "impersonating the system:masters group is not allowed")
        if self.mode and len(groups) >= _MANY and self._allows(replace(about, name="*")):
            return
        for group in groups:
            self._check(replace(about, name=group))

    def _check_extra(self) -> None:
        about, extra = self._about("userextras", "", group=_API), self.wanted.extra
        if self.mode and (problem := _problem_of(extra)):
            raise forbidden(about, problem)
        is_many = len(extra) >= _MANY or sum(map(len, extra.values())) >= _MANY
        if self.mode and is_many and self._allows(replace(about, subresource="*", name="*")):
            return
        for key, values in extra.items():
            for value in values:
                self._check(replace(about, subresource=key, name=value))

    def _about(self, resource: str, name: str, *, group: str = "") -> Attributes:
        verb = f"impersonate:{self.mode}" if self.mode else "impersonate"
        # The legacy mode has users and groups in the core group, the other modes have everything in one group.
        return Attributes(self.asked.user, verb, group or (_API if self.mode else ""), "v1", resource, name=name)

    def _allows(self, asked: Attributes) -> bool:
        return self.authorizer.authorize(self._judged(asked)).allowed

    def _check(self, asked: Attributes) -> None:
        asked = self._judged(asked)
        decision = self.authorizer.authorize(asked)
        if not decision.allowed:
            raise forbidden(asked, ": ".join(filter(None, (decision.evaluation_error, decision.reason))))

    def _judged(self, asked: Attributes) -> Attributes:
        """A ServiceAccount needs the right to any node: that the node is its own has been checked before."""
        if self.mode != "associated-node":
            return asked
        user = replace(asked.user, extra={_NODE_KEYS: tuple(sorted(asked.user.extra))})
        return replace(asked, user=user, name="*" if asked.verb == "impersonate:associated-node" else asked.name)


def _has_only_name(wanted: User) -> bool:
    return not (wanted.uid or wanted.groups or wanted.extra)


def _node_of(name: str) -> str:
    node = name.removeprefix(_NODE_PREFIX)
    return node if node != name and not names.dns_subdomain(node) else ""


def _is_account(user: User) -> bool:
    return users.split_service_account(user.name) is not None


def _is_own_node(wanted: User, requester: User) -> bool:
    node = _node_of(wanted.name)
    is_named_alone = bool(node) and _has_only_name(wanted)
    return is_named_alone and _is_account(requester) and requester.extra.get(_NODE_NAME) == (node,)


_MODES: Final[tuple[tuple[str, Callable[[User, User], bool]], ...]] = (
    ("associated-node", _is_own_node),
    ("arbitrary-node", lambda wanted, _: _has_only_name(wanted) and bool(_node_of(wanted.name))),
    ("serviceaccount", lambda wanted, _: _has_only_name(wanted) and _is_account(wanted)),
    ("user-info", lambda wanted, _: not _node_of(wanted.name) and not _is_account(wanted)),
    ("", lambda wanted, _: True),
)


def _in_group(user: User, group: str) -> User:
    return user if group in user.groups else replace(user, groups=(*user.groups, group))


def _problem_of(extra: Mapping[str, tuple[str, ...]]) -> str:
    for key, values in extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        if wrong := _key_errors(key):
            told = str(wrong[0]) if len(wrong) == 1 else f"[{', '.join(map(str, wrong))}]"
            return f"impersonating an invalid key in extra is not allowed: {told}"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""


def _key_errors(key: str) -> field_errors.Errors:
    """Mirrors IsDomainPrefixedPath."""
    domain, _, path = key.partition("/")
    if not domain or not path:
        told = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [field_errors.invalid("extra.key", key, told)]
    errors = [field_errors.invalid("extra.key", domain, told) for told in names.dns_subdomain(domain)]
    if _PATH.fullmatch(path) is None:
        told = f"Invalid path (regex used for validation is '{_PATH.pattern}')"
        errors.append(field_errors.invalid("extra.key", path, told))
    return errors


def _unescaped(key: str) -> str:
    """Decode the percent-encoding of a key, which lets a header's name carry it. A wrong encoding stays as it is."""
    if _BAD_ESCAPE.search(key):
        return key
    return unquote_to_bytes(key).decode(errors="replace")


def _go_user(user: User) -> str:
    """Upstream's struct as Go's %#v prints it, which its message about a missing header shows."""
    groups = f"[]string{{{', '.join(map(quoted, user.groups))}}}" if user.groups else "[]string(nil)"
    listed = (f"{quoted(key)}:[]string{{{', '.join(map(quoted, user.extra[key]))}}}" for key in sorted(user.extra))
    extra = f"map[string][]string{{{', '.join(listed)}}}" if user.extra else "map[string][]string(nil)"
    return f"&user.DefaultInfo{{Name:{quoted(user.name)}, UID:{quoted(user.uid)}, Groups:{groups}, Extra:{extra}}}"
