"""`tonnage demo`: the enhancements' stories, played on a fresh embedded cluster over real HTTPS.

A story is a function that talks to the API and claims things; `Stage.holds` prints each claim with what was found. The
exit code is 0 only if every claim held. So far the stories are those of the API; `tonnage explain` and `tonnage replay`
show decisions.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import click
from rich.console import Console

from tonnage.apiserver.server import Server, Settings, serve
from tonnage.gates import Gates
from tonnage.objects.document import decode, encode

Doc = dict[str, Any]
CAPACITY = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
VOLUMES = "/api/v1/persistentvolumes"
PODS = "/api/v1/namespaces/default/pods"


@dataclass(slots=True)
class Reply:
    code: int
    body: Doc

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


@dataclass(slots=True)
class Stage:
    """One running server, a person's view of it, and the count of claims that did not hold."""

    console: Console
    session: aiohttp.ClientSession
    url: str
    failures: list[str] = field(default_factory=list)

    async def ask(self, method: str, path: str, body: Doc | None = None) -> Reply:
        """One request; PATCH bodies are merge patches."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = encode(body) if body is not None else None
        async with self.session.request(method, self.url + path, data=data, headers={"Content-Type": kind}) as answer:
            return Reply(answer.status, decode(await answer.read()))

    def holds(self, claim: str, true: bool, found: object = "") -> None:
        """Print a claim with its evidence, and remember when it does not hold."""
        mark = "[green]✓[/]" if true else "[red]✗[/]"
        self.console.print(f"  {mark} {claim}")
        if found != "":
            self.console.print(f"      {found}", style="dim", markup=False, soft_wrap=True)
        if not true:
            self.failures.append(claim)


Story = Callable[[Stage], Awaitable[None]]


async def pools_are_stored(stage: Stage) -> None:
    """KEP-5925: a node reports each of its pools"""
    doc = {
        "metadata": {"name": "node-1"},
        "storageClassName": "pools",
        "capacity": "300Gi",
        "availableCapacities": ["100Gi", "100Gi", "102400Mi"],
        "nodeTopology": {"matchLabels": {"topology.tonnage.dev/node": "node-1"}},
    }
    made = await stage.ask("POST", CAPACITY, doc)
    pools = made.body.get("availableCapacities")
    stage.holds("three pools are kept, in canonical form", pools == ["100Gi", "100Gi", "100Gi"], pools)
    bad = await stage.ask(
        "POST", CAPACITY, {**doc, "metadata": {"name": "bad"}, "availableCapacities": ["10Gi", "-1Gi"]}
    )
    stage.holds("a pool of less than nothing is refused, by index", bad.code == 422, bad.message)
    less = await stage.ask(
        "PATCH", f"{CAPACITY}/node-1", {"capacity": "280Gi", "availableCapacities": ["80Gi", "200Gi"]}
    )
    stage.holds("a refresh replaces the list as a whole", less.body.get("availableCapacities") == ["80Gi", "200Gi"])


async def volumes_may_move(stage: Stage) -> None:
    """KEP-5925 and KEP-5381: a volume may be rebuilt elsewhere when its node goes"""
    await stage.ask("POST", DRIVERS, {"metadata": {"name": "pools.tonnage.dev"}, "spec": {"storageCapacity": True}})
    opted = await stage.ask("PATCH", f"{DRIVERS}/pools.tonnage.dev", {"spec": {"volumeRebuilding": True}})
    stage.holds("a driver opts in while it runs", opted.body.get("spec", {}).get("volumeRebuilding") is True)

    def on(node: str) -> Doc:
        term = {"matchExpressions": [{"key": "topology.tonnage.dev/node", "operator": "In", "values": [node]}]}
        return {"required": {"nodeSelectorTerms": [term]}}

    volume = {
        "metadata": {"name": "vol-1"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "pools.tonnage.dev", "volumeHandle": "vol-1"},
            "nodeAffinity": on("node-1"),
        },
    }
    await stage.ask("POST", VOLUMES, volume)
    freed = await stage.ask("PATCH", f"{VOLUMES}/vol-1", {"spec": {"nodeAffinity": None}})
    stage.holds("its driver frees the volume from the cordoned node", "nodeAffinity" not in freed.body.get("spec", {}))
    moved = await stage.ask("PATCH", f"{VOLUMES}/vol-1", {"spec": {"nodeAffinity": on("node-2")}})
    stage.holds("and ties it to the node it was rebuilt on", moved.body["spec"].get("nodeAffinity") == on("node-2"))


async def limits_follow_reality(stage: Stage) -> None:
    """KEP-4876: attach limits follow reality"""
    entry = {"name": "pools.tonnage.dev", "nodeID": "node-1", "topologyKeys": ["topology.tonnage.dev/node"]}

    async def report(count: int, node_id: str = "node-1") -> Reply:
        drivers = [{**entry, "nodeID": node_id, "allocatable": {"count": count}}]
        return await stage.ask("PATCH", f"{CSI_NODES}/node-1", {"spec": {"drivers": drivers}})

    await stage.ask("POST", CSI_NODES, {"metadata": {"name": "node-1"}, "spec": {"drivers": [entry]}})
    counts = [(await report(count)).body["spec"]["drivers"][0]["allocatable"]["count"] for count in (25, 24)]
    stage.holds("the count goes from unknown to 25, then to 24", counts == [25, 24], counts)
    other = await report(24, node_id="node-9")
    stage.holds(
        "the rest of a driver's entry stays what it was", other.code == 422, other.message.partition(": ")[2][:110]
    )
    often = await stage.ask(
        "PATCH", f"{DRIVERS}/pools.tonnage.dev", {"spec": {"nodeAllocatableUpdatePeriodSeconds": 5}}
    )
    stage.holds("nobody may ask for updates more often than every 10 s", often.code == 422, often.message)


async def nomination_ends_with_binding(stage: Stage) -> None:
    """KEP-5278: the expected node is visible before binding, and gone after it"""
    await stage.ask(
        "POST", PODS, {"metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "c", "image": "app"}]}}
    )
    await stage.ask("PATCH", f"{PODS}/web-0/status", {"status": {"nominatedNodeName": "node-1"}})
    listed = await stage.ask("GET", f"{PODS}?fieldSelector=status.nominatedNodeName%3Dnode-1")
    names = [item["metadata"]["name"] for item in listed.body["items"]]
    stage.holds("who is expected on node-1 can be asked", names == ["web-0"], names)
    binding = {"metadata": {"name": "web-0"}, "target": {"kind": "Node", "name": "node-1"}}
    await stage.ask("POST", f"{PODS}/web-0/binding", binding)
    pod = (await stage.ask("GET", f"{PODS}/web-0")).body
    found = {"nodeName": pod["spec"].get("nodeName"), "nominatedNodeName": pod["status"].get("nominatedNodeName")}
    stage.holds(
        "binding sets the node and clears the nomination",
        found == {"nodeName": "node-1", "nominatedNodeName": None},
        found,
    )


async def gate_off_keeps_what_is_stored(stage: Stage) -> None:
    """The same folder, with CSIStorageCapacityV2 switched off"""
    kept = await stage.ask("GET", f"{CAPACITY}/node-1")
    stage.holds(
        "pools stored before are still there after a restart", kept.body.get("availableCapacities") == ["80Gi", "200Gi"]
    )
    doc = {"metadata": {"name": "node-2"}, "storageClassName": "pools", "availableCapacities": ["10Gi"]}
    made = await stage.ask("POST", CAPACITY, doc)
    stage.holds(
        "new ones are dropped, as an older server would", made.code == 201 and "availableCapacities" not in made.body
    )


async def gate_on_again_takes_them(stage: Stage) -> None:
    """And switched on again"""
    taken = await stage.ask("PATCH", f"{CAPACITY}/node-2", {"availableCapacities": ["10Gi", "20Gi"]})
    stage.holds("pools can be reported again", taken.body.get("availableCapacities") == ["10Gi", "20Gi"])


ACTS: tuple[tuple[str, tuple[Story, ...]], ...] = (
    ("", (pools_are_stored, volumes_may_move, limits_follow_reality, nomination_ends_with_binding)),
    ("CSIStorageCapacityV2=false", (gate_off_keeps_what_is_stored,)),
    ("", (gate_on_again_takes_them,)),
)
"""Gates to start the server with, and what is played on it; all acts share one data folder."""


@click.command()
def demo() -> None:
    """Play the enhancements' stories on a fresh embedded cluster; exit 0 only if all of them hold."""
    with tempfile.TemporaryDirectory(prefix="tonnage-demo-") as folder:
        failures = asyncio.run(play(Path(folder), Console(highlight=False)))
    if failures:
        click.echo(f"error: {len(failures)} of the claims above did not hold", err=True)
        raise SystemExit(1)


async def play(folder: Path, console: Console) -> list[str]:
    """Every act in order; the claims that did not hold."""
    failures: list[str] = []
    for gates, stories in ACTS:
        async with serve(Settings(data_dir=folder, port=0, gates=Gates.parse(gates))) as server:
            console.print(f"\n[bold]a Kubernetes API server at {server.url}[/] {gates}")
            async with _session(server) as session:
                stage = Stage(console, session, server.url)
                for story in stories:
                    console.print(f"\n[bold]{story.__doc__}[/]")
                    await story(stage)
                failures += stage.failures
    console.print("\nall of it held" if not failures else f"\n[red]{len(failures)} did not hold[/]")
    return failures


def _session(server: Server) -> aiohttp.ClientSession:
    trust = ssl.create_default_context(cadata=server.ca_pem.decode())
    headers = {"Authorization": f"Bearer {server.token}", "User-Agent": "tonnage-demo"}
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust), headers=headers)
