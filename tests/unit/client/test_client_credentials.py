"""What is shown to the server: tokens and certificates kept fresh, and exec plugins run for real."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually_async
from support.pki import Authority
from support.virtual_clock import VirtualClock
from tonnage.client.config import kubeconfig
from tonnage.client.config.connection import (
    Certificate,
    ExecPlugin,
    KubeconfigCluster,
    KubeconfigUser,
    ServerConnection,
)
from tonnage.client.config.credentials import Credentials, ShownIdentity
from tonnage.client.errors import NoCredentials

CA = Authority()
V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"


def credentials(
    user: KubeconfigUser, clock: VirtualClock | None = None, cluster: KubeconfigCluster | None = None
) -> Credentials:
    connection = ServerConnection(cluster or KubeconfigCluster("https://10.0.0.1:6443"), user)
    return Credentials(connection, clock=clock or VirtualClock())


async def test_a_token_a_name_with_a_password_and_nobody():
    assert await credentials(KubeconfigUser(token="t")).identity() == ShownIdentity("Bearer t")
    # base64 of "me:pw"
    assert await credentials(KubeconfigUser(username="me", password="pw")).identity() == ShownIdentity("Basic bWU6cHc=")
    assert await credentials(KubeconfigUser()).identity() == ShownIdentity("")


async def test_a_token_file_is_read_again_within_a_minute(tmp_path):
    clock, file = VirtualClock(), tmp_path / "token"
    file.write_text("one\n")
    shown = credentials(KubeconfigUser(token_file=file), clock)
    assert await shown.identity() == ShownIdentity("Bearer one")
    file.write_text("two\n")
    clock.advance(49.0)
    assert await shown.identity() == ShownIdentity("Bearer one")
    clock.advance(1.0)
    assert await shown.identity() == ShownIdentity("Bearer two")


async def test_a_401_reads_the_token_file_at_once(tmp_path):
    file = tmp_path / "token"
    file.write_text("one")
    shown = credentials(KubeconfigUser(token_file=file))
    first = await shown.identity()
    assert not await shown.renew(first)  # nothing new to show
    file.write_text("two")
    assert await shown.renew(first)
    assert await shown.identity() == ShownIdentity("Bearer two")


async def test_a_token_file_that_goes_away_leaves_what_was_read(tmp_path, caplog):
    clock, file = VirtualClock(), tmp_path / "token"
    file.write_text("one")
    shown = credentials(KubeconfigUser(token_file=file), clock)
    await shown.identity()
    file.unlink()
    clock.advance(60.0)
    assert await shown.identity() == ShownIdentity("Bearer one")
    assert caplog.messages == [
        f"cannot read {file} again: No such file or directory; what was read before is still used"
    ]


async def test_a_token_file_that_is_empty_or_missing_from_the_start_is_an_error(tmp_path):
    file = tmp_path / "token"
    with pytest.raises(NoCredentials) as caught:
        await credentials(KubeconfigUser(token_file=file)).identity()
    assert (caught.value.message, caught.value.hint) == (
        f"cannot read {file}: No such file or directory",
        "the kubeconfig names this file; is it there?",
    )
    file.write_text("\n")
    with pytest.raises(NoCredentials) as caught:
        await credentials(KubeconfigUser(token_file=file)).identity()
    assert (caught.value.message, caught.value.hint) == (
        f"the token file {file} is empty",
        "write the token into it",
    )
    assert await credentials(KubeconfigUser(token_file=file, token="fallback")).identity() == ShownIdentity(
        "Bearer fallback"
    )


async def test_certificate_files_are_read_again_too(tmp_path):
    clock = VirtualClock()
    first, second = CA.sign("first"), CA.sign("second")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(first.certificate)
    key.write_bytes(first.key)
    shown = credentials(KubeconfigUser(certificate_file=certificate, key_file=key), clock)
    assert await shown.identity() == ShownIdentity("", Certificate(first.certificate, first.key))
    certificate.write_bytes(second.certificate)
    key.write_bytes(second.key)
    clock.advance(60.0)
    assert await shown.identity() == ShownIdentity("", Certificate(second.certificate, second.key))


# -- exec plugins -----------------------------------------------------------------------------------------------------


class Plugin:
    """A real little program: it prints what stands in a file, notes how often it ran, and what it was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = folder / "plugin"
        self.command.write_text(
            "#!/bin/sh\n"
            'cd "$(dirname "$0")"\n'
            'printf "%s\\n" "$*|$FLAVOUR|$KUBERNETES_EXEC_INFO" >> runs\n'
            "if [ -f stderr ]; then cat stderr >&2; exit 3; fi\n"
            "cat answer\n"
        )
        self.command.chmod(0o755)

    def answers(self, status: Any, *, version: str = V1, kind: str = "ExecCredential") -> None:
        (self.folder / "answer").write_text(json.dumps({"kind": kind, "apiVersion": version, "status": status}))

    @property
    def runs(self) -> list[str]:
        path = self.folder / "runs"
        return path.read_text().splitlines() if path.exists() else []

    def user(self, **options: Any) -> KubeconfigUser:
        fields = {"api_version": V1, "interactive_mode": "Never", **options}
        return KubeconfigUser(exec=ExecPlugin(command=str(self.command), **fields))


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


async def test_a_plugin_is_asked_once_and_told_what_is_wanted(plugin):
    plugin.answers({"token": "from-plugin"})
    shown = credentials(plugin.user(args=("get", "token"), env={"FLAVOUR": "vanilla"}))
    assert await shown.identity() == ShownIdentity("Bearer from-plugin")
    assert await shown.identity() == ShownIdentity("Bearer from-plugin")
    (run,) = plugin.runs
    words, flavour, info = run.split("|")
    assert (words, flavour) == ("get token", "vanilla")
    assert json.loads(info) == {"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": False}}


async def test_a_plugin_may_be_told_of_the_cluster(plugin):
    plugin.answers({"token": "t"}, version=V1BETA1)
    cluster = KubeconfigCluster("https://c:1", ca_pem=b"PEM", tls_server_name="kube", exec_config={"audience": "x"})
    await credentials(plugin.user(api_version=V1BETA1, provide_cluster_info=True), cluster=cluster).identity()
    told = json.loads(plugin.runs[0].split("|")[2])
    # "UEVN" is base64 of "PEM".
    assert told["apiVersion"] == V1BETA1 and told["spec"]["cluster"] == {
        "server": "https://c:1",
        "tls-server-name": "kube",
        "certificate-authority-data": "UEVN",
        "config": {"audience": "x"},
    }


async def test_what_has_expired_is_asked_for_again(plugin):
    clock = VirtualClock()  # 2000-01-01
    plugin.answers({"token": "one", "expirationTimestamp": "2000-01-01T00:10:00Z"})
    shown = credentials(plugin.user(), clock)
    await shown.identity()
    clock.advance(599.0)
    await shown.identity()
    assert len(plugin.runs) == 1
    plugin.answers({"token": "two", "expirationTimestamp": "2000-01-01T00:20:00Z"})
    clock.advance(1.0)
    assert await shown.identity() == ShownIdentity("Bearer two") and len(plugin.runs) == 2


async def test_a_401_asks_again(plugin):
    plugin.answers({"token": "one"})
    shown = credentials(plugin.user())
    first = await shown.identity()
    plugin.answers({"token": "two"})
    assert await shown.renew(first)
    assert await shown.identity() == ShownIdentity("Bearer two") and len(plugin.runs) == 2


async def test_a_plugin_may_give_a_certificate(plugin):
    pair = CA.sign("me")
    data = {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()}
    plugin.answers(data)
    assert await credentials(plugin.user()).identity() == ShownIdentity("", Certificate(pair.certificate, pair.key))


async def test_a_plugin_is_not_asked_when_there_is_a_token(plugin):
    user = KubeconfigUser(token="t", exec=plugin.user().exec)
    assert await credentials(user).identity() == ShownIdentity("Bearer t") and plugin.runs == []


async def test_a_plugin_that_is_not_there_is_told_with_its_hint():
    user = KubeconfigUser(
        exec=ExecPlugin("no-such-plugin", V1, install_hint="brew install it", interactive_mode="Never")
    )
    with pytest.raises(NoCredentials) as caught:
        await credentials(user).identity()
    assert caught.value.message == "getting credentials: exec: executable no-such-plugin not found"
    assert caught.value.hint == "brew install it"
    user = KubeconfigUser(exec=ExecPlugin("no-such-plugin", V1, interactive_mode="Never"))
    with pytest.raises(NoCredentials) as caught:
        await credentials(user).identity()
    assert caught.value.hint == (
        "install the credential plugin; see https://kubernetes.io/docs/reference/access-authn-authz/authentication/"
        "#client-go-credential-plugins"
    )


async def test_a_plugin_that_cannot_be_run_says_why(plugin):
    plugin.command.chmod(0o644)
    with pytest.raises(NoCredentials) as caught:
        await credentials(plugin.user()).identity()
    assert caught.value.message == f"getting credentials: exec: {plugin.command}: Permission denied"


async def test_a_plugin_that_fails_is_quoted(plugin):
    (plugin.folder / "stderr").write_text("you are\nnot logged in\n")
    with pytest.raises(NoCredentials) as caught:
        await credentials(plugin.user()).identity()
    assert caught.value.message == (
        f"getting credentials: exec: executable {plugin.command} failed with exit code 3: you are not logged in"
    )


async def test_a_plugin_that_failed_is_asked_again_next_time(plugin):
    (plugin.folder / "stderr").write_text("no\n")
    shown = credentials(plugin.user())
    with pytest.raises(NoCredentials):
        await shown.identity()
    (plugin.folder / "stderr").unlink()
    plugin.answers({"token": "t"})
    assert await shown.identity() == ShownIdentity("Bearer t")


async def test_requests_that_wait_for_a_plugin_share_its_failure(plugin):
    (plugin.folder / "stderr").write_text("no\n")
    shown = credentials(plugin.user())
    answers = await asyncio.gather(*(shown.identity() for _ in range(15)), return_exceptions=True)
    assert {type(each) for each in answers} == {NoCredentials}
    assert len(plugin.runs) == 1


@pytest.mark.parametrize("turns", range(6))
async def test_a_request_that_is_cancelled_while_its_plugin_starts_ends_at_once(plugin, turns):
    (plugin.folder / "stderr").write_text("no\n")
    asked = asyncio.create_task(credentials(plugin.user()).identity())
    for _ in range(turns):
        await asyncio.sleep(0)
    asked.cancel()
    done, _ = await asyncio.wait([asked], timeout=10)
    assert done == {asked}
    assert asked.cancelled()


async def test_a_plugin_that_nobody_waits_for_is_killed_and_the_next_request_runs_it_anew(plugin):
    os.mkfifo(plugin.folder / "answer")  # it prints nothing until somebody writes there
    shown = credentials(plugin.user())
    asked = asyncio.create_task(shown.identity())
    await eventually_async(lambda: len(plugin.runs) == 1)
    asked.cancel()
    await asyncio.wait([asked], timeout=10)
    (plugin.folder / "answer").unlink()
    plugin.answers({"token": "t"})
    assert await shown.identity() == ShownIdentity("Bearer t")
    assert len(plugin.runs) == 2


@pytest.mark.parametrize(
    ("status", "options", "told"),
    [
        (None, {}, "didn't return a status field"),
        ({}, {}, "didn't return a token or cert/key pair"),
        ({"clientKeyData": "x"}, {}, "returned only certificate or key, not both"),
        (
            {"token": "t"},
            {"version": V1BETA1},
            f"is configured to use API version {V1}, plugin returned version {V1BETA1} (kind ExecCredential)",
        ),
        (
            {"token": "t"},
            {"kind": "Pod"},
            f"is configured to use API version {V1}, plugin returned version {V1} (kind Pod)",
        ),
    ],
)
async def test_an_answer_that_is_of_no_use_is_told_in_upstreams_words(plugin, status, options, told):
    plugin.answers(status, **options)
    with pytest.raises(NoCredentials) as caught:
        await credentials(plugin.user()).identity()
    assert caught.value.message == f"getting credentials: exec plugin {plugin.command} {told}"


async def test_an_answer_that_is_no_json_is_not_shown_for_it_may_hold_a_token(plugin):
    (plugin.folder / "answer").write_text("token: very-secret")
    with pytest.raises(NoCredentials) as caught:
        await credentials(plugin.user()).identity()
    assert caught.value.message == (
        f"getting credentials: exec plugin {plugin.command} did not print an ExecCredential"
    )


async def test_a_certificate_that_is_none_is_told(plugin):
    plugin.answers({"clientCertificateData": "x", "clientKeyData": "y"})
    with pytest.raises(NoCredentials, match="returned no certificate with its key in PEM form"):
        await credentials(plugin.user()).identity()


async def test_a_plugin_that_needs_a_terminal_is_not_run_without_one(plugin, monkeypatch):
    plugin.answers({"token": "t"})
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(NoCredentials) as caught:
        await credentials(plugin.user(interactive_mode="Always")).identity()
    assert caught.value.message == (
        f"getting credentials: exec plugin {plugin.command} cannot support interactive mode: standard input is not a "
        "terminal"
    )
    assert plugin.runs == []
    assert await credentials(plugin.user(interactive_mode="IfAvailable")).identity() == ShownIdentity("Bearer t")


async def test_a_pods_token_is_followed_as_the_kubelet_rotates_it(tmp_path):
    """The kubelet writes a new folder and points a link to it; what a pod opens are links through that one."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
        (tmp_path / name / "ca.crt").write_bytes(CA.pem)
        (tmp_path / name / "namespace").write_text("tonnage-system")
    (tmp_path / "..data").symlink_to("first")
    for name in ("token", "ca.crt", "namespace"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    connection = kubeconfig.load_in_cluster(environment, folder=tmp_path)
    clock = VirtualClock()
    shown = Credentials(connection, clock=clock)
    assert (await shown.identity(), connection.namespace) == (ShownIdentity("Bearer first"), "tonnage-system")
    (tmp_path / "..data.new").symlink_to("second")
    (tmp_path / "..data.new").rename(tmp_path / "..data")
    clock.advance(50.0)
    assert await shown.identity() == ShownIdentity("Bearer second")
