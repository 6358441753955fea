"""The shape of every JSON answer, as classes. A field with a default may be absent; all others are always there.

`schemas.py` makes JSON Schema of them. Answers may gain fields; tests/test_json_answers.py holds real answers against the
schemas and, so that no field goes untold, against the names that stand here.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

Bytes = Annotated[int, Meta(description="whole bytes")]
Quantity = Annotated[str, Meta(description='a quantity such as "100Gi"')]
PodName = Annotated[str, Meta(description="namespace/name")]
ClaimName = Annotated[str, Meta(description="namespace/name")]
Instant = Annotated[str, Meta(description="RFC 3339")]


class Answer(Struct, rename="camel"):
    """Names are Kubernetes' kind of names: camelCase."""


# -- explain, replay --------------------------------------------------------------------------------------------------


class Held(Answer):
    """A pod that is expected on the node."""

    pod: PodName
    since: Annotated[str, Meta(description="RFC 3339; empty when nobody knows")]
    by: Annotated[str, Meta(description="who wrote status.nominatedNodeName")]


class NodeAnswer(Answer):
    """One node, best first."""

    name: str
    feasible: bool
    rejected_by: Annotated[str, Meta(description="the plugin that refused it; empty for none")]
    reasons: list[str]
    unresolvable: Annotated[bool, Meta(description="evicting pods would not help")]
    scores: Annotated[dict[str, int], Meta(description="by plugin, weighted")]
    total: int
    passed_over: Annotated[str, Meta(description="why others are preferred for a while")] | UnsetType = UNSET
    held_by: list[Held] | UnsetType = UNSET
    nearest_miss: Annotated[str, Meta(description="how near a refused node came")] | UnsetType = UNSET


class Takes(Answer):
    pool: Annotated[int, Meta(description="its number in pools, from 0")]


class Step(Answer):
    claim: str | None
    size: Quantity
    pool: Quantity | None


class ReservedBy(Answer):
    pod: str
    since: Instant


class Promised(Answer):
    claim: str
    pod: str | None
    size: Quantity
    since: Instant


class Attach(Answer):
    driver: str
    used: int
    limit: int | None


class ClaimAnswer(Answer):
    """Where the bytes of one claim come from on one node, or why they do not."""

    claim: ClaimName
    kind: Literal["bound", "static", "dynamic", "rebuild"]
    pools: Annotated[list[Quantity], Meta(description="what the capacity object says is free, largest first")]
    volume: str | UnsetType = UNSET
    capacity: Annotated[str | None, Meta(description="the capacity object, namespace/name")] | UnsetType = UNSET
    capacity_group: str | UnsetType = UNSET
    size: Quantity | UnsetType = UNSET
    maximum_volume_size: Quantity | UnsetType = UNSET
    takes: Takes | UnsetType = UNSET
    grade: Literal["guaranteed", "possible", "none"] | UnsetType = UNSET
    pool_policy: str | UnsetType = UNSET
    bad_sequence: list[Step] | UnsetType = UNSET
    reserved_by: ReservedBy | UnsetType = UNSET
    promised: list[Promised] | UnsetType = UNSET
    attach: Attach | UnsetType = UNSET
    miss: str | UnsetType = UNSET


class Preemption(Answer):
    node: str
    victims: Annotated[list[PodName], Meta(description="the most important first")]
    budget_violations: int


class Cause(Answer):
    kind: Literal[
        "storage", "reserved", "capacity", "volumes", "slots", "resources", "taints", "cordoned", "gates", "scheduler",
        "reasons", "fits", "assumed", "terminating",
    ]  # fmt: skip
    about: str
    where: str
    message: str


class WouldHelp(Answer):
    change: str
    pods: Annotated[int, Meta(description="how many it lets in")]


class Explanation(Answer):
    """The answer for one pod."""

    pod: PodName
    schedulable: bool
    node: str | None
    message: Annotated[str, Meta(description="kube-scheduler's sentence; for a pod that is not decided on, what it is")]
    nodes: list[NodeAnswer]
    volumes: Annotated[dict[str, list[ClaimAnswer]], Meta(description="by node")]
    preemption: Preemption | UnsetType = UNSET
    state: Literal["new", "pending", "bound", "assumed", "terminating"] | UnsetType = UNSET
    workload: Annotated[str | None, Meta(description="Kind/namespace/name")] | UnsetType = UNSET
    cause: Cause | UnsetType = UNSET
    would_help: list[WouldHelp] | UnsetType = UNSET


# -- disks, of several ------------------------------------------------------------------------------------------------


class DiskVolume(Answer):
    volume: str | None
    claim: str | None
    pool: Annotated[int | None, Meta(description="its number from 0; null where it is not known")]
    bytes: Bytes
    promised: Annotated[bool, Meta(description="kept back for a claim that has no volume yet")]


class Disk(Answer):
    objects: Annotated[list[str], Meta(description="the capacity objects that tell of it")]
    where: str
    classes: list[str]
    total_bytes: Bytes
    free_bytes: Annotated[list[Bytes], Meta(description="of each pool")]
    volumes: list[DiskVolume]


# -- fit --------------------------------------------------------------------------------------------------------------


class Stop(Answer):
    reason: str
    nodes: int


class Remedy(Answer):
    kind: str
    node: str | None
    amount: int
    text: str
    changes: list[Remedy] | UnsetType = UNSET


class NodesNeeded(Answer):
    nodes: int
    pods: int
    template: str


class Fit(Answer):
    """How many more replicas fit."""

    workload: str
    count: int
    by_node: dict[str, int]
    by_zone: dict[str, int]
    stops: Annotated[list[Stop], Meta(description="what stops the next one")]
    would_help: Annotated[list[str], Meta(description="the least that would let it in, in words")]
    remedies: list[Remedy]
    partial: Annotated[bool, Meta(description="--max or Ctrl-C ended it")]
    interrupted: bool
    disks: list[Disk]
    nodes_needed: NodesNeeded | UnsetType = UNSET


# -- drain-preview ----------------------------------------------------------------------------------------------------


class MovedVolume(Answer):
    claim: ClaimName
    action: Literal["rebuild", "reattach", "stays"]
    bytes: Bytes | None


class Move(Answer):
    pod: PodName
    workload: str
    from_: str = field(name="from")
    to: str
    volumes: list[MovedVolume]
    equally_good: list[str] | UnsetType = UNSET
    during: str | UnsetType = UNSET


class Stuck(Answer):
    pod: PodName
    workload: str
    from_: str = field(name="from")
    message: str
    evicted: bool
    volumes: list[MovedVolume]
    during: str | UnsetType = UNSET
    comes_back: bool | UnsetType = UNSET


class Budget(Answer):
    name: str
    pods: list[PodName]
    why: str


class LostPod(Answer):
    pod: PodName
    from_: str = field(name="from")
    message: str


class DaemonPod(Answer):
    pod: PodName
    node: str


class LeftBehind(Answer):
    node: str
    what: str
    volume: str | None
    claim: str | None
    bytes: Bytes | None
    pods: list[PodName]


class LostData(Answer):
    pod: PodName
    volume: str
    what: str
    bytes: Bytes | None


class RebuiltBetween(Answer):
    from_: str = field(name="from")
    to: str
    bytes: Bytes
    volumes: int


class BytesRebuilt(Answer):
    total: Bytes
    moves: list[RebuiltBetween]


class OrderCost(Answer):
    stuck: int
    bytes_rebuilt: Bytes


class Order(Answer):
    best: list[str]
    stuck: int
    bytes_rebuilt: Bytes
    given: OrderCost
    tried: int
    complete: bool


class OneMoreFailure(Answer):
    node: str
    during: list[str]
    stuck: list[Stuck]


class OneMore(Answer):
    holds: bool | None
    tried: int
    not_tried: int
    complete: bool
    failures: list[OneMoreFailure]


class DrainPreview(Answer):
    """What draining would do."""

    drained: list[str]
    moves: list[Move]
    stuck: list[Stuck]
    holds: bool | None
    budgets: list[Budget]
    preempted: list[Move]
    lost: list[LostPod]
    daemons: list[DaemonPod]
    data_left_behind: list[LeftBehind]
    data_lost: list[LostData]
    bytes_rebuilt: BytesRebuilt
    waiting_before: list[PodName]
    kubectl_flags: list[str]
    one_by_one: bool
    survives_one_more: OneMore
    disks_before: list[Disk]
    disks_after: list[Disk]
    partial: bool
    order: Order | UnsetType = UNSET


# -- simulate ---------------------------------------------------------------------------------------------------------


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


class Simulation(Answer):
    """A scenario on virtual time, one run a policy."""

    seed: int
    partial: bool
    runs: dict[str, Run]
    differences: list[RunDifference] | UnsetType = UNSET


# -- simulate --recording, shadow -------------------------------------------------------------------------------------


class Difference(Answer):
    pod: PodName
    theirs: str | None
    ours: str | None
    why: str
    theirs_refused: bool


class FirstDifference(Answer):
    what: Literal["attempt", "pop", "postFilter"]
    at: Instant
    pod: PodName
    recorded: str | None
    repeated: str | None
    explanation: Explanation | UnsetType = UNSET


class Repeated(Answer):
    decisions: int
    equal: int
    first_difference: FirstDifference | None


class RecordedRun(Answer):
    decisions: int
    agreed: int
    ties: int
    differences: list[Difference]
    differences_left_out: int


class Recording(Answer):
    """What a scheduler wrote down, decided again."""

    seed: int
    since: Instant
    until: Instant
    ending: str | None
    partial: bool
    repeated: Repeated
    runs: dict[str, RecordedRun]


class Refusal(Answer):
    pod: PodName
    node: str
    seen_by: str
    avoided: bool
    tonnage: str
    why: str


class VolumesRefused(Answer):
    theirs: int
    would_have_been_avoided: int
    refusals: list[Refusal]
    refusals_left_out: int


class Shadow(Answer):
    """Decisions of a cluster's scheduler beside ours."""

    since: Instant
    until: Instant
    decisions: int
    agreed: int
    ties: int
    differences: list[Difference]
    differences_left_out: int
    volumes_refused: VolumesRefused
    unseen: int


# -- doctor, status, version ------------------------------------------------------------------------------------------


class Finding(Answer):
    name: str
    severity: Literal["error", "warning", "info"]
    object: Annotated[str, Meta(description="Kind namespace/name")]
    message: str
    remedy: str
    driver: str | UnsetType = UNSET


class Summary(Answer):
    error: int
    warning: int
    info: int


class DriverSummary(Answer):
    capacity_objects: int
    layout: Literal["none", "node", "shared", "cluster", "mixed"]
    pools: Annotated[int, Meta(description="the most that one object lists")]
    provisioning: Literal["thick", "thin", "unknown"]
    volume_rebuilding: bool


class Recommended(Answer):
    reservation: str
    legacy_pools: str
    pool_fit: str
    why: dict[str, str]
    file: Annotated[str, Meta(description="a KubeSchedulerConfiguration with them")]


class GateState(Answer):
    state: Literal["on", "off", "unknown"]
    by: Annotated[str, Meta(description="what it is read off")]


class Server(Answer):
    version: str
    gates: dict[str, GateState]


class Doctor(Answer):
    """What of a cluster Tonnage can use, and what is wrong with it."""

    source: str
    summary: Summary
    findings: Annotated[list[Finding], Meta(description="the severe ones first")]
    drivers: dict[str, DriverSummary]
    configuration: Recommended
    disks: list[Disk]
    server: Annotated[Server, Meta(description="of a live cluster")] | UnsetType = UNSET
    partial: bool | UnsetType = UNSET


class Program(Answer):
    name: str
    pid: int | None
    state: str
    url: str | None


class NodeState(Answer):
    name: str
    ready: bool
    unschedulable: bool
    pods: int


class PoolState(Answer):
    node: Annotated[str | None, Meta(description="null for an object that reaches several")]
    storage_class: str
    capacity: Quantity | None
    pools: list[Quantity]
    object: str


class Fault(Answer):
    kind: str
    node: Annotated[str, Meta(description="empty: every node")]
    value: float


class UnknownContents(Answer):
    node: str
    pool: int
    path: str
    bytes: Bytes


class Status(Answer):
    """A running `tonnage up`."""

    data_dir: str
    pid: int
    kubeconfig: str
    programs: list[Program]
    nodes: Annotated[list[NodeState] | None, Meta(description="null while the API server is away")]
    pools: Annotated[list[PoolState] | None, Meta(description="null while the API server is away")]
    faults: list[Fault]
    unknown_contents: list[UnknownContents] | None
    storage: Annotated[list[str], Meta(description="what the API server says is wrong with its store")]


class Version(Answer):
    """What runs."""

    tonnage: str
    kubernetes: Annotated[str, Meta(description="the release whose behaviour is followed")]
    python: str
