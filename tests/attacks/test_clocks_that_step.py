"""The machine's clock is set back by hours, or forward by a day, while a cluster runs: nobody is refused, nothing ends
early, and nothing is held until the clock has caught up.

In this process the server and the controllers share a virtual clock whose time of day is set while its spans go on. The
slow test does the same to all programs of `tonnage up`, by a library that is loaded before libc's.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from support.eventually import eventually, eventually_async
from support.processes import start_up
from support.virtual_clock import VirtualClock
from tonnage.apiserver.bootstrap import EventExpiry
from tonnage.apiserver.server import Server, ServerSettings, serve
from tonnage.client.config import kubeconfig
from tonnage.client.config.connection import KubeconfigUser
from tonnage.client.http import Client
from tonnage.client.informers import Informers
from tonnage.client.recorder import Recorder
from tonnage.clock import rfc3339, rfc3339_micro
from tonnage.controllers.controller_context import ControllerContext
from tonnage.controllers.nodes.node_lifecycle import LEASES, NodeLifecycleController
from tonnage.controllers.workloads.deployments import replica_set_controller
from tonnage.controllers.workloads.jobs import JobController, TTLAfterFinishedController
from tonnage.errors import NotFound
from tonnage.objects.apps_v1 import ReplicaSet
from tonnage.objects.batch_v1 import Job
from tonnage.objects.core_v1 import Event, Node, Pod
from tonnage.objects.document import Doc, decode, encode
from tonnage.objects.small_groups import Lease
from tonnage.plane.bootstrap import LIFETIME_S
from tonnage.stories.story_runner import claim, pod

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
STEPS = pytest.mark.parametrize("ahead_s", [-2 * HOUR_S, DAY_S], ids=["-2h", "+1d"])


@dataclass
class SteppedClocks:
    """A server and controllers on one virtual clock."""

    server: Server
    client: Client
    informers: Informers
    recorder: Recorder
    clock: VirtualClock

    @asynccontextmanager
    async def running(self, *kinds: Callable[[ControllerContext], Any]) -> AsyncIterator[None]:
        context = ControllerContext(self.client, self.informers, self.recorder, self.clock, random.Random(1))
        controllers = [kind(context) for kind in kinds]
        await self.informers.wait_synced()
        tasks = [asyncio.create_task(each.run()) for each in controllers]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def until(self, holds: Callable[[], Awaitable[Any]], tick_s: float = 0.0) -> float:
        """Ask until it is true, each time `tick_s` of virtual time later; how many seconds that took."""
        began_s = self.clock.monotonic()

        async def look() -> bool:
            if await holds():
                return True
            self.clock.advance(tick_s)
            return False

        await eventually_async(look)
        return self.clock.monotonic() - began_s

    async def make_job(self, name: str, **spec: Any) -> None:
        pod: Doc = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        doc = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}}
        await self.client.create_doc({**doc, "spec": {"template": {"spec": pod}, **spec}})

    async def pods_in(self, *phases: str) -> list[Pod]:
        return [pod for pod in (await self.client.list(Pod)).items if pod.status.phase in phases]

    async def end_pod(self, code: int) -> None:
        """End the one pod that runs, now."""
        (pod,) = await self.pods_in("Pending")
        state = {"terminated": {"exitCode": code, "finishedAt": rfc3339(self.clock.now())}}
        ended: Doc = {"phase": "Failed" if code else "Succeeded"}
        ended["containerStatuses"] = [{"name": "c", "image": "i", "state": state}]
        await self.client.patch(Pod, pod.key, {"status": ended}, patch_type="strategic", subresource="status")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[SteppedClocks]:
    clock = VirtualClock(datetime.now(UTC).replace(microsecond=0))  # OpenSSL has the machine's own
    async with (
        serve(ServerSettings(data_dir=tmp_path, port=0), clock=clock) as server,
        Client.connect(kubeconfig.load(server.kubeconfig)) as client,
        Informers(client) as informers,
        Recorder(client, "tests", "tests") as recorder,
    ):
        yield SteppedClocks(server, client, informers, recorder, clock)


@STEPS
async def test_tokens_and_certificates_stay_good(stage: SteppedClocks, tmp_path: Path, ahead_s: float) -> None:
    metadata = {"name": "app", "namespace": "default"}
    await stage.client.create_doc({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    group = "authentication.k8s.io/v1"
    request = {"apiVersion": group, "kind": "TokenRequest", "spec": {"expirationSeconds": LIFETIME_S}}
    path = "/api/v1/namespaces/default/serviceaccounts/app/token"
    token = decode(await stage.client.raw("POST", path, encode(request)))["status"]["token"]
    connection = replace(kubeconfig.load(stage.server.kubeconfig), user=KubeconfigUser(token=token))
    async with Client.connect(connection) as account:
        stage.clock.set_time_of_day(ahead_s)
        review = encode({"apiVersion": group, "kind": "SelfSubjectReview"})
        answer = decode(await account.raw("POST", f"/apis/{group}/selfsubjectreviews", review))
        assert answer["status"]["userInfo"]["username"] == "system:serviceaccount:default:app"
    for name in ("ca", "apiserver"):
        each = x509.load_pem_x509_certificate((tmp_path / "pki" / f"{name}.crt").read_bytes())
        assert each.not_valid_before_utc < stage.clock.now() < each.not_valid_after_utc


@STEPS
async def test_nodes_that_live_stay_ready_and_silent_ones_are_found_in_time(
    stage: SteppedClocks, ahead_s: float
) -> None:
    for name in ("node-1", "node-2"):
        await stage.client.create_doc({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        now = rfc3339(stage.clock.now())
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
        status: Doc = {"status": {"conditions": [ready]}}
        await stage.client.patch(Node, name, status, patch_type="strategic", subresource="status")
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        await stage.client.create_doc({**lease, "metadata": {"name": name, "namespace": LEASES}, "spec": {}})

    async def is_ready(name: str) -> bool:
        condition = (await stage.client.get(Node, name)).condition("Ready")
        return condition is not None and condition.is_true

    async def renew(name: str) -> None:
        renewed = {"spec": {"renewTime": rfc3339_micro(stage.clock.now())}}
        key = f"{LEASES}/{name}"
        written = await stage.client.patch(Lease, key, renewed)

        async def is_seen() -> bool:
            seen = stage.informers.of(Lease, namespace=LEASES).get(key)
            return seen is not None and seen.spec.renew_time == written.spec.renew_time

        await eventually_async(is_seen)

    context = ControllerContext(stage.client, stage.informers, stage.recorder, stage.clock, random.Random(1))
    lifecycle = NodeLifecycleController(context)
    await stage.informers.wait_synced()
    for step in range(12):  # two minutes: more than twice the grace period
        if step == 3:
            stage.clock.set_time_of_day(ahead_s)
        for name in ("node-1", "node-2"):
            await renew(name)
        await lifecycle.monitor()
        assert await is_ready("node-1") and await is_ready("node-2"), f"after {10 * step} s"
        stage.clock.advance(10)
    for _ in range(6):  # node-2 is silent now
        await renew("node-1")
        await lifecycle.monitor()
        stage.clock.advance(10)
    assert await is_ready("node-1") and not await is_ready("node-2")


@STEPS
async def test_events_are_kept_for_their_hour_and_no_longer(stage: SteppedClocks, ahead_s: float) -> None:
    async def write(name: str) -> None:
        about = {"kind": "Pod", "namespace": "default", "name": "p"}
        metadata = {"name": name, "namespace": "default"}
        await stage.client.create_doc(
            {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": about}
        )

    async def names() -> list[str]:
        return [each.name for each in (await stage.client.list(Event)).items]

    expiry = EventExpiry(stage.server.registry, stage.clock, HOUR_S)
    await write("before")
    await expiry.look()
    stage.clock.set_time_of_day(ahead_s)
    await write("after")
    for _ in range(2):
        await expiry.look()
        assert await names() == ["after", "before"]
        stage.clock.advance(HOUR_S / 2 - 1)
    stage.clock.advance(2)
    await expiry.look()
    assert await names() == []


@STEPS
async def test_jobs_fail_pause_succeed_and_go_as_if_nobody_had_set_the_clock(
    stage: SteppedClocks, ahead_s: float
) -> None:
    async with stage.running(JobController, TTLAfterFinishedController):
        await stage.make_job("sum", ttlSecondsAfterFinished=100, activeDeadlineSeconds=1000)
        await stage.until(lambda: stage.pods_in("Pending"))
        await stage.end_pod(1)

        async def is_counted() -> bool:
            return (await stage.client.get(Job, "default/sum")).status.failed == 1

        await stage.until(is_counted)
        stage.clock.set_time_of_day(ahead_s)
        # The pause after a failure is ten seconds, whatever the clock says.
        paused_s = await stage.until(lambda: stage.pods_in("Pending"), tick_s=0.5)
        assert 5 <= paused_s <= 600
        await stage.end_pod(0)

        async def is_done() -> bool:
            return (await stage.client.get(Job, "default/sum")).has("Complete")

        await stage.until(is_done)

        async def is_gone() -> bool:
            try:
                return (await stage.client.get(Job, "default/sum")).metadata.is_terminating
            except NotFound:
                return True

        stage.clock.advance(90)
        assert not await is_gone()
        assert await stage.until(is_gone, tick_s=1) <= 600


@STEPS
async def test_a_pod_is_available_when_it_was_ready_for_long_enough(stage: SteppedClocks, ahead_s: float) -> None:
    async def available() -> int:
        return (await stage.client.get(ReplicaSet, "default/web")).status.available_replicas

    async with stage.running(replica_set_controller):
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 1, "minReadySeconds": 60, "selector": {"matchLabels": labels}, "template": template}
        metadata = {"name": "web", "namespace": "default"}
        await stage.client.create_doc(
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
        )
        await stage.until(lambda: stage.pods_in("Pending"))
        (pod,) = await stage.pods_in("Pending")
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(stage.clock.now())}
        runs: Doc = {"status": {"phase": "Running", "conditions": [ready]}}
        await stage.client.patch(Pod, pod.key, runs, patch_type="strategic", subresource="status")

        async def is_seen() -> bool:
            return (await stage.client.get(ReplicaSet, "default/web")).status.ready_replicas == 1

        await stage.until(is_seen)
        stage.clock.set_time_of_day(ahead_s)
        await stage.client.patch(ReplicaSet, "default/web", {"metadata": {"annotations": {"look": "again"}}})
        stage.clock.advance(30)
        assert await available() == 0
        assert await stage.until(available, tick_s=1) <= 600


# -- all programs of a cluster ----------------------------------------------------------------------------------------

LIBRARY = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long long *ahead_s;
__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("STEPPED_CLOCK");
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *page = fd < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
  if (page != MAP_FAILED) ahead_s = page;
}
int clock_gettime(clockid_t id, struct timespec *at) {
  int failed = (int)syscall(SYS_clock_gettime, id, at);
  if (!failed && ahead_s && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += *ahead_s;
  return failed;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec, at->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="no C compiler, or another libc")
def test_a_whole_cluster_works_on_when_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="t") as name:
        folder = Path(name)
        (folder / "clock.c").write_text(LIBRARY)
        library, ahead = folder / "clock.so", folder / "ahead"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / "clock.c"], check=True)
        ahead.write_bytes(struct.pack("q", 0))
        with monkeypatch.context() as patched:
            patched.setenv("STEPPED_CLOCK", str(ahead))
            patched.setenv("LD_PRELOAD", str(library))
            up = start_up(folder / "c", "--nodes", "2")
        pods = "/api/v1/namespaces/default/pods"

        def run_pod(name: str) -> None:
            up.create("/api/v1/namespaces/default/persistentvolumeclaims", claim(name, "1Gi"))
            up.create(pods, pod(name, [name]))
            eventually(lambda: up.get(f"{pods}/{name}").body.get("status", {}).get("phase") == "Running")

        def end_job(name: str) -> Callable[[], bool]:
            container = {"name": "c", "image": "busybox", "command": ["sleep", "5"]}
            spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
            jobs = "/apis/batch/v1/namespaces/default/jobs"
            up.create(jobs, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})
            return lambda: up.get(f"{jobs}/{name}").body["status"].get("succeeded") == 1

        try:
            run_pod("first")
            for number, ahead_s in enumerate((-7200, 86400 - 7200, 0)):
                has_ended = end_job(f"before-{number}")
                with ahead.open("r+b") as file:
                    file.write(struct.pack("q", ahead_s))
                run_pod(f"after-{number}")
                eventually(has_ended)
                eventually(end_job(f"after-{number}"))
                nodes = up.get("/api/v1/nodes").body["items"]
                ready = [
                    each["status"] for node in nodes for each in node["status"]["conditions"] if each["type"] == "Ready"
                ]
                assert ready == ["True", "True"]
            assert "prove nothing" not in up.log("apiserver")
        finally:
            up.stop()
