"""What `simulate --scenario` answers."""

from __future__ import annotations

from msgspec import UNSET, UnsetType, field

from reference.answers.disks import Disk
from reference.answers.explain import ClaimAnswer, NodeAnswer
from reference.answers.words import Answer, Bytes, PodName


class TimeToRunning(Answer):
    p50: float | None
    p90: float | None
    p99: float | None


class RunningWithin(Answer):
    percent: int
    seconds: float


class SimulatedDecision(Answer):
    at: float
    pod: PodName
    node: str | None


class WaitingGroup(Answer):
    reason: str
    count: int
    pods: list[PodName]


class PodAndWhy(Answer):
    pod: PodName
    why: str


class Rebuild(Answer):
    at: float
    volume: str
    from_: str = field(name="from")
    to: str
    bytes: Bytes


class Sample(Answer):
    at: float
    used_bytes: Bytes
    total_bytes: Bytes
    utilisation: float
    fragmentation: float
    running: int
    waiting: int
    refused_volumes: int


class Run(Answer):
    """One policy on the scenario."""

    placed: int
    waiting: int
    refused_volumes: int
    time_to_running: TimeToRunning
    bytes_rebuilt: Bytes
    running_within: list[RunningWithin]
    arrived: int
    not_made: int
    running: int
    seconds: float
    partial: bool
    volumes_made: int
    attempts: int
    decisions: list[SimulatedDecision]
    failed_bindings: int
    rejected_pods: int
    waiting_pods: list[WaitingGroup]
    lost: list[PodAndWhy]
    blocked_evictions: list[PodAndWhy]
    rebuilds: list[Rebuild]
    samples: list[Sample]
    disks: list[Disk]


class WaitOnlyIn(Answer):
    count: int
    pods: list[PodName]


class Side(Answer):
    pod: str | None
    node: str | None
    at: float | None
    why: str
    nodes: list[NodeAnswer]
    message: str | UnsetType = UNSET
    volumes: dict[str, list[ClaimAnswer]] | UnsetType = UNSET


class Parting(Answer):
    decision: int
    at: float
    pod: str
    sides: dict[str, Side]


class RunDifference(Answer):
    between: list[str]
    wait_only_in: dict[str, WaitOnlyIn]
    parting: Parting | None


class Ends(Answer):
    least: float
    most: float


class Spread(Answer):
    """Of one policy, over all seeds."""

    seeds: int
    placed: Ends | None
    waiting: Ends | None
    refused_volumes: Ends | None
    p50: Ends | None
    p99: Ends | None
    bytes_rebuilt: Ends | None


class Simulation(Answer):
    """A scenario on virtual time, one run a policy."""

    seed: int
    partial: bool
    runs: dict[str, Run]
    differences: list[RunDifference] | UnsetType = UNSET
    spread: dict[str, Spread] | UnsetType = UNSET
