"""A server on which pods have priorities and history is read back: what a watch saw of every pod, write by write."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from test_scheduler_volumes_live import CLAIMS, PODS, SELECTED_NODE, Doc, LiveScheduler

from support.eventually import eventually
from support.programs import RunningProgram, spawn

__all__ = ["CLAIMS", "PODS", "SELECTED_NODE", "Doc", "NominationStage", "eventually"]

ELECTION = {
    "leaderElect": True,
    "leaseDuration": "3s",
    "renewDeadline": "2s",
    "retryPeriod": "500ms",
}


class NominationStage(LiveScheduler):
    @contextmanager
    def placing(self, *flags: str, elects: bool = False, name: str = "scheduler") -> Iterator[RunningProgram]:
        """A `tonnage scheduler` process with these flags; ended at the end, if it still runs."""
        config = self.folder / f"{name}.json"
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        config.write_text(json.dumps({**head, "leaderElection": ELECTION if elects else {"leaderElect": False}}))
        server = ("--secure-port", "0", "--kubeconfig", str(self.server.kubeconfig))
        process = spawn("scheduler", "--config", str(config), *server, *flags, log=self.folder / f"{name}.log")
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)

    def small_node(self, name: str, **spec: Any) -> None:
        """A node with one CPU."""
        room = {"cpu": "1", "memory": "4Gi", "pods": "10"}
        labels = {"kubernetes.io/hostname": name}
        self.create(
            "/api/v1/nodes",
            {
                "metadata": {"name": name, "labels": labels},
                "spec": spec,
                "status": {"allocatable": room, "capacity": room},
            },
        )

    def priority(self, name: str, value: int) -> None:
        self.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})

    def working_pod(self, name: str, cpu: str = "1", *, priority: str = "", **spec: Any) -> None:
        container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
        if priority:
            spec["priorityClassName"] = priority
        self.create(PODS, {"metadata": {"name": name}, "spec": {"containers": [container], **spec}})

    def propose(self, pod: str, node: str | None) -> None:
        reply = self.server.patch(f"{PODS}/{pod}/status", {"status": {"nominatedNodeName": node}})
        assert reply.code == 200, reply.body

    def nominated_to(self, pod: str) -> str:
        return str(self.server.get(f"{PODS}/{pod}").body["status"].get("nominatedNodeName", ""))

    def status(self, pod: str) -> Doc:
        return dict(self.server.get(f"{PODS}/{pod}").body["status"])

    def now(self) -> str:
        """The server's revision."""
        return str(self.server.get(f"{PODS}?limit=1").body["metadata"]["resourceVersion"])

    def writes(self, path: str, name: str, since: str) -> list[Doc]:
        """Every state of an object that was written after a revision."""
        seen = self.server.watch_to_the_end(f"{path}?watch=true&resourceVersion={since}")
        return [each.object for each in seen if each.name == name]
