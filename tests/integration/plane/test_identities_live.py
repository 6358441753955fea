"""Identities of programs on a running server: made, renewed, made again, and taken away where they are needless."""

from __future__ import annotations

import random
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.processes import ApiServerProcess
from tonnage.client.config import kubeconfig
from tonnage.client.http import Client
from tonnage.clock import SystemClock
from tonnage.errors import Forbidden, Unauthorized
from tonnage.objects.core_v1 import Node, Secret
from tonnage.plane.bootstrap import Identities

COMMANDS = {"scheduler": ["--no-leader-elect"], "csi-driver": ["--rebuild"]}
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Clock(SystemClock):
    """The real one, that many hours later."""

    hours = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(hours=self.hours)


@asynccontextmanager
async def identities_of(cluster: ApiServerProcess, folder: Path, clock: Clock) -> AsyncIterator[Identities]:
    connection = kubeconfig.load(cluster.kubeconfig)
    async with Client.connect(connection) as client:
        yield Identities(
            folder / "identities", client, ca_pem=connection.cluster.ca_pem, clock=clock, rng=random.Random(1)
        )


def whoami(cluster: ApiServerProcess, token: str) -> Any:
    reply = cluster.post(WHOAMI, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, token=token)
    return reply.body["status"]["userInfo"]["username"] if reply.code == 201 else reply.code


def token_of(folder: Path, program: str) -> str:
    return (folder / "identities" / f"{program}.token").read_text()


async def test_a_program_is_its_service_account_and_may_what_its_file_says(
    cluster: ApiServerProcess, tmp_path: Path
) -> None:
    async with identities_of(cluster, tmp_path, Clock()) as identities:
        await identities.ensure(COMMANDS)
        assert whoami(cluster, token_of(tmp_path, "scheduler")) == "system:serviceaccount:kube-system:tonnage-scheduler"
        async with Client.connect(kubeconfig.load(identities.kubeconfig("scheduler"))) as client:
            await client.list(Node)
            with pytest.raises(Forbidden, match="tonnage-scheduler"):
                await client.list(Secret)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "identities").iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "identities").stat().st_mode) == 0o700


async def test_the_next_start_changes_no_object_and_takes_away_what_is_not_needed(
    cluster: ApiServerProcess, tmp_path: Path
) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    async with identities_of(cluster, tmp_path, Clock()) as identities:
        await identities.ensure({**COMMANDS, "csi-driver": ["--rebuild", "--lvm-nodes", "openebs"]})
        assert cluster.get(f"{roles}/tonnage-up:tonnage-csi-driver-lvm-nodes").code == 200
        before = cluster.get(f"{roles}/tonnage-up:tonnage-scheduler").version
        await identities.ensure(COMMANDS)
        assert cluster.get(f"{roles}/tonnage-up:tonnage-scheduler").version == before
        assert cluster.get(f"{roles}/tonnage-up:tonnage-csi-driver-lvm-nodes").code == 404


async def test_a_role_that_somebody_changed_is_put_right(cluster: ApiServerProcess, tmp_path: Path) -> None:
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tonnage-up:tonnage-scheduler"
    async with identities_of(cluster, tmp_path, Clock()) as identities:
        await identities.ensure(COMMANDS)
        rules = cluster.get(role).body["rules"]
        cluster.patch(role, {"rules": []})
        await identities.ensure(COMMANDS)
        assert cluster.get(role).body["rules"] == rules


async def test_tokens_are_renewed_long_before_they_expire_and_after_a_sleep(
    cluster: ApiServerProcess, tmp_path: Path
) -> None:
    clock = Clock()
    async with identities_of(cluster, tmp_path, clock) as identities:
        await identities.ensure(COMMANDS)
        first = token_of(tmp_path, "scheduler")
        clock.hours = 5
        await identities.look()
        assert token_of(tmp_path, "scheduler") == first
        clock.hours = 7
        await identities.look()
        second = token_of(tmp_path, "scheduler")
        assert second != first
        clock.hours = 24 * 7  # a laptop that slept for a week
        await identities.look()
        third = token_of(tmp_path, "scheduler")
        assert third != second
        assert whoami(cluster, third) == "system:serviceaccount:kube-system:tonnage-scheduler"


async def test_an_account_that_was_deleted_is_made_again_and_its_program_goes_on(
    cluster: ApiServerProcess, tmp_path: Path
) -> None:
    async with identities_of(cluster, tmp_path, Clock()) as identities:
        await identities.ensure(COMMANDS)
        async with Client.connect(kubeconfig.load(identities.kubeconfig("scheduler"))) as program:
            await program.list(Node)
            cluster.delete("/api/v1/namespaces/kube-system/serviceaccounts/tonnage-scheduler")
            with pytest.raises(Unauthorized):
                await program.list(Node)
            await identities.look()
            await program.list(Node)  # the same client: it reads the file again after a 401
