"""Flags about who may read a program's pages: delegated authentication and authorisation, as kube-scheduler's.

One thing is friendlier than upstream: without --authentication-kubeconfig and --authorization-kubeconfig the program's
own connection is used, where upstream then takes every token for nobody's and forbids everything. One flag is ours:
--unauthenticated-on-loopback leaves all pages open to whoever is on the machine.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import click

from tonnage.cli.flags.go_flags import FILE, switch, texts
from tonnage.cli.flags.serving_flags import is_loopback
from tonnage.cli.options import DURATION, Flags, options, setting
from tonnage.client.delegated_access import OPEN_PATHS
from tonnage.clock import Clock
from tonnage.errors import TonnageError

if TYPE_CHECKING:
    from tonnage.client.config.connection import ServerConnection
    from tonnage.client.delegated_access.access import DelegatedAccess


access_options: Final = options(
    switch(
        "--unauthenticated-on-loopback",
        help="Leave metrics and debug open to everybody on this machine; --bind-address must be loopback. Ours.",
    ),
    click.option(
        "--authentication-kubeconfig",
        type=FILE,
        help="Who is asked whose token it is (TokenReview).  [default: the program's own connection]",
    ),
    switch("--authentication-skip-lookup", help="Do not look for authorities of client certificates in the cluster."),
    switch(
        "--authentication-tolerate-lookup-failure",
        default=True,
        help="Go on without client certificates when that fails.",
    ),
    setting("--authentication-token-webhook-cache-ttl", DURATION, "10s", "How long an answer about a token counts."),
    click.option(
        "--authorization-kubeconfig",
        type=FILE,
        help="Who is asked what somebody may (SubjectAccessReview).  [default: the program's own connection]",
    ),
    texts("--authorization-always-allow-paths", default=OPEN_PATHS, help="What everybody may read; * ends a prefix."),
    setting("--authorization-webhook-cache-authorized-ttl", DURATION, "10s", "How long a yes counts."),
    setting("--authorization-webhook-cache-unauthorized-ttl", DURATION, "10s", "How long a no counts."),
    click.option("--client-ca-file", type=FILE, help="The authority of client certificates.  [default: the cluster's]"),
    click.option(
        "--requestheader-client-ca-file",
        type=FILE,
        help="The authority of front proxies, which say in headers who asks.  [default: the cluster's]",
    ),
    texts("--requestheader-allowed-names", help="Common names of front proxies.  [default: any]"),
    texts("--requestheader-username-headers", default=("x-remote-user",), help="Where they name the user."),
    texts("--requestheader-uid-headers", help="Where they name the user's uid."),
    texts("--requestheader-group-headers", default=("x-remote-group",), help="Where they name groups."),
    texts("--requestheader-extra-headers-prefix", default=("x-remote-extra-",), help="Where they say more."),
)


def checked(flags: Flags) -> None:
    """Raises UsageError for flags that do not go together."""
    from tonnage.client.delegated_access.access import OpenPaths

    if flags["unauthenticated_on_loopback"] and not is_loopback(flags["bind_address"]):
        raise click.UsageError(
            f"--unauthenticated-on-loopback needs a loopback --bind-address, and {flags['bind_address']} is none: "
            "leave it out, or bind to 127.0.0.1"
        )
    for name in ("username_headers", "uid_headers", "group_headers", "extra_headers_prefix", "allowed_names"):
        if any(not each.strip() for each in flags[f"requestheader_{name}"]):
            raise click.UsageError(f'empty value in "requestheader-{name.replace("_", "-")}"')
    uids = flags["requestheader_uid_headers"]
    if uids and "x-remote-uid" not in [each.lower() for each in uids]:
        raise click.UsageError(
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation "
            "will not work"
        )
    try:
        OpenPaths(flags["authorization_always_allow_paths"])
    except TonnageError as exc:
        raise click.UsageError(f"--authorization-always-allow-paths: {exc.message}") from exc


def access_of(
    flags: Flags, own: ServerConnection, *, clock: Clock, rng: random.Random, user_agent: str
) -> DelegatedAccess | None:
    """The gate that the flags ask for; None leaves all open. Raises InvalidKubeconfig. `own` is how the program reaches
    its API server."""
    from tonnage.client.config import kubeconfig
    from tonnage.client.delegated_access.access import AccessSettings, DelegatedAccess
    from tonnage.client.delegated_access.authorities import AuthoritySources, FrontProxies
    from tonnage.client.errors import InvalidKubeconfig

    if flags["unauthenticated_on_loopback"]:
        return None

    def connection(name: str) -> ServerConnection:
        path = flags[f"{name}_kubeconfig"]
        try:
            return own if path is None else kubeconfig.load(path)
        except InvalidKubeconfig as exc:
            told = f"name a kubeconfig with --{name}-kubeconfig, or leave it out to ask the server of --kubeconfig"
            raise TonnageError(exc.message, hint=told) from exc

    def lower(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(each.strip().lower() for each in names)

    proxies = FrontProxies(
        username_headers=lower(flags["requestheader_username_headers"]),
        uid_headers=lower(flags["requestheader_uid_headers"]),
        group_headers=lower(flags["requestheader_group_headers"]),
        extra_prefixes=lower(flags["requestheader_extra_headers_prefix"]),
        allowed_names=flags["requestheader_allowed_names"],
    )
    settings = AccessSettings(
        token_ttl_s=flags["authentication_token_webhook_cache_ttl"],
        allow_ttl_s=flags["authorization_webhook_cache_authorized_ttl"],
        deny_ttl_s=flags["authorization_webhook_cache_unauthorized_ttl"],
        open_paths=flags["authorization_always_allow_paths"],
        authorities=AuthoritySources(
            client_ca_file=flags["client_ca_file"],
            front_proxy_ca_file=flags["requestheader_client_ca_file"],
            front_proxies=proxies,
            looks_up=not flags["authentication_skip_lookup"],
            tolerates_failure=flags["authentication_tolerate_lookup_failure"],
        ),
    )
    return DelegatedAccess(
        connection("authentication"),
        connection("authorization"),
        settings,
        clock=clock,
        rng=rng,
        user_agent=user_agent,
    )
