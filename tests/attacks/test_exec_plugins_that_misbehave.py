"""Credential plugins that hang, fork, flood, die or print nonsense, run for real; token files that come and go."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest

from support.eventually import eventually_async
from support.virtual_clock import VirtualClock
from tonnage.client.config import credentials as credentials_module
from tonnage.client.config.connection import ExecPlugin, KubeconfigCluster, KubeconfigUser, ServerConnection
from tonnage.client.config.credentials import Credentials, ShownIdentity
from tonnage.client.errors import NoCredentials

V1 = "client.authentication.k8s.io/v1"


def plugin(tmp_path: Path, script: str) -> KubeconfigUser:
    command = tmp_path / "plugin"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    return KubeconfigUser(exec=ExecPlugin(str(command), V1, interactive_mode="Never"))


def credentials(user: KubeconfigUser, clock: VirtualClock | None = None) -> Credentials:
    return Credentials(
        ServerConnection(KubeconfigCluster("https://10.0.0.1:6443"), user), clock=clock or VirtualClock()
    )


def printing(status: str) -> str:
    return f"""echo '{{"kind":"ExecCredential","apiVersion":"{V1}","status":{status}}}'"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or before it was read
        return False


@pytest.mark.parametrize(
    "hang",
    [
        "echo $$ >> pids; exec sleep 1000",
        "echo $$ >> pids; sleep 1000 & echo $! >> pids; wait",
        # It ends in good order, but what it has started keeps its stdout open.
        "sleep 1000 & echo $! >> pids; exit 0",
        "trap '' TERM INT HUP; echo $$ >> pids; while :; do sleep 1000; done",
    ],
)
async def test_a_plugin_that_hangs_is_ended_with_all_that_it_started(tmp_path, hang):
    clock = VirtualClock()
    asking = asyncio.create_task(credentials(plugin(tmp_path, f"cd {tmp_path}\n{hang}"), clock).identity())
    pids = tmp_path / "pids"
    lines = hang.count(">> pids")
    await eventually_async(lambda: pids.exists() and pids.read_text().count("\n") == lines)
    await clock.run_for(29.0)
    assert not asking.done()
    await clock.run_for(1.0)
    with pytest.raises(NoCredentials) as caught:
        await asking
    assert caught.value.message == (
        f"getting credentials: exec: executable {tmp_path / 'plugin'} did not end within 30 s and was ended"
    )
    assert caught.value.hint is not None and "run the plugin by hand" in caught.value.hint
    started = [int(pid) for pid in pids.read_text().split()]
    await eventually_async(lambda: not any(map(is_running, started)))


async def test_the_next_request_asks_a_plugin_that_hung_again(tmp_path):
    script = f"[ -e {tmp_path}/second ] || {{ touch {tmp_path}/second; exec sleep 1000; }}\n" + printing(
        '{"token":"t"}'
    )
    clock = VirtualClock()
    shown = credentials(plugin(tmp_path, script), clock)
    asking = asyncio.create_task(shown.identity())
    await eventually_async((tmp_path / "second").exists)
    await clock.run_for(30.0)
    with pytest.raises(NoCredentials):
        await asking
    assert await shown.identity() == ShownIdentity("Bearer t")


async def test_a_plugin_that_prints_without_end_is_ended(tmp_path):
    with pytest.raises(NoCredentials, match="printed more than 1048576 bytes and was ended"):
        await credentials(plugin(tmp_path, "exec yes")).identity()


async def test_a_plugin_that_complains_without_end_fails_with_its_last_words(tmp_path):
    script = "head -c 5000000 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 3"
    with pytest.raises(NoCredentials) as caught:
        await credentials(plugin(tmp_path, script)).identity()
    assert caught.value.message.endswith("xthe end") and len(caught.value.message) < 1000


async def test_a_plugin_that_was_killed_is_told(tmp_path):
    with pytest.raises(NoCredentials, match="was ended by signal 9"):
        await credentials(plugin(tmp_path, "kill -9 $$")).identity()


async def test_a_plugin_finds_its_stdin_at_its_end(tmp_path):
    shown = credentials(plugin(tmp_path, "cat\n" + printing('{"token":"t"}')))
    assert await shown.identity() == ShownIdentity("Bearer t")


@pytest.mark.parametrize(
    "expires",
    [
        '""',
        '"soon"',
        "7",
        '"2026-13-45T00:00:00Z"',
        '"2026-11-15T00:00:00"',
        "[]",
        "{}",
        "true",
        '"99999-01-01T00:00:00Z"',
    ],
)
async def test_an_expiry_that_is_no_time_is_no_credential(tmp_path, expires):
    status = f'{{"token":"t","expirationTimestamp":{expires}}}'
    with pytest.raises(NoCredentials, match="did not print an ExecCredential"):
        await credentials(plugin(tmp_path, printing(status))).identity()


@pytest.mark.parametrize(
    "expires", ["null", '"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59Z"', '"2026-11-15T02:29:13.5+05:30"']
)
async def test_an_expiry_long_ago_or_far_away_is_one(tmp_path, expires):
    status = f'{{"token":"t","expirationTimestamp":{expires}}}'
    assert await credentials(plugin(tmp_path, printing(status))).identity() == ShownIdentity("Bearer t")


def test_what_a_plugin_prints_is_read_or_refused_whatever_it_is():
    rng = random.Random(13)
    asked = ExecPlugin("p", V1)
    good = (
        b'{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{},'
        b'"status":{"token":"t","expirationTimestamp":"2026-11-15T02:29:13Z","clientKeyData":"k"}}'
    )
    for _ in range(3_000):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(4)] = rng.choice([rng.randbytes(2), b'"', b"}", b"[", b"null", b"1e999"])
        with suppress(NoCredentials):
            credentials_module._read(bytes(data), asked)


@pytest.mark.parametrize("args", [("a\0b",), ("\ud800",)])
async def test_an_argument_that_cannot_be_passed_is_told(args):
    user = KubeconfigUser(exec=ExecPlugin("true", V1, args=args, interactive_mode="Never"))
    with pytest.raises(NoCredentials, match="getting credentials: exec: "):
        await credentials(user).identity()


async def test_a_token_file_may_vanish_be_emptied_and_come_back(tmp_path):
    clock, file = VirtualClock(), tmp_path / "token"
    shown = credentials(KubeconfigUser(token_file=file), clock)

    async def seen() -> str:
        clock.advance(60.0)
        return (await shown.identity()).authorization

    with pytest.raises(NoCredentials, match="No such file or directory"):
        await seen()
    file.write_text("one")
    assert await seen() == "Bearer one"
    file.write_text("")  # somebody is just writing it
    assert await seen() == "Bearer one"
    file.unlink()
    assert await seen() == "Bearer one"
    file.mkdir()
    assert await seen() == "Bearer one"
    file.rmdir()
    file.symlink_to("/dev/zero")
    assert await seen() == "Bearer one"
    file.unlink()
    file.write_text("two")
    assert await seen() == "Bearer two"
