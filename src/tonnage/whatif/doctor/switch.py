"""What a switch to Tonnage would change: its rules and kube-scheduler 1.36's, applied to the same pods.

    pods that wait      placed one after the other by both, in the order of the queue
    pods that run       only those with claims, because only these can differ: would they be admitted again?

Both are the same engine; kube-scheduler's rules are ours without the scheduler's gates. Neither preempts.

`Recommendation`: which settings suit the cluster, with reasons, and a configuration file with them.

reservation   Ledger counts promises until figures show them; None where no driver publishes capacity.
legacyPools   matters only where an object has a sum. Bounded: both figures are necessary. Independent would admit more
              where figures do not follow volumes, and promise less: it is never recommended.
poolFit       Prefer: nodes where volumes fit more surely come first. With one pool or one claim it is Possible.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final

from tonnage.clock import VirtualClock
from tonnage.gates import Gates
from tonnage.keyed import grouped
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Key, Object, changed
from tonnage.printable import printable
from tonnage.scheduling.cluster.pod_info import PodInfo
from tonnage.scheduling.configuration.configuration import Configuration, default_configuration
from tonnage.scheduling.configuration.plugin_args import LegacyPools, PoolFit, Reservation
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.decision.answers import NOBODY
from tonnage.scheduling.engine.engine import Engine
from tonnage.scheduling.volumes.volume_fit import NOT_ENOUGH_SPACE
from tonnage.whatif import explain, sources
from tonnage.whatif.doctor.capacity_checks import SOURCES_OF_POOLS, DriverFigures, Provisioning
from tonnage.whatif.doctor.facts import CATALOGUE, WEAKER, Facts, Finding
from tonnage.whatif.page import named
from tonnage.whatif.pending import causes
from tonnage.whatif.pending.pending import PendingPod
from tonnage.whatif.shadow.judging import Judge, ShadowVerdict, verdict_of
from tonnage.whatif.simulate.presets import PRESETS, preset_gates

SCHEDULER_NAME = "tonnage"
_ASKING_FOR_POOLS = ("capacity-without-pools", "classes-share-disks", "size-rules-missing")
"""Findings whose remedy is `tonnage pools`."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    reservation: Reservation
    why: Mapping[str, str]
    legacy_pools: ClassVar = LegacyPools.BOUNDED
    pool_fit: ClassVar = PoolFit.PREFER

    @property
    def settings(self) -> dict[str, str]:
        return {
            "reservation": self.reservation.value,
            "legacyPools": self.legacy_pools.value,
            "poolFit": self.pool_fit.value,
        }

    @property
    def _written(self) -> dict[str, str]:
        """As in YAML, where None is null."""
        return {name: "'None'" if value == Reservation.NONE else value for name, value in self.settings.items()}

    @property
    def file(self) -> str:
        """A KubeSchedulerConfiguration with these settings, for a second scheduler in the cluster."""
        settings = "\n      ".join(f"{name}: {value}" for name, value in self._written.items())
        return f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{resourceName: {SCHEDULER_NAME}-scheduler}}
profiles:
- schedulerName: {SCHEDULER_NAME}
  pluginConfig:
  - name: StorageCapacity
    args:
      apiVersion: tonnage.dev/v1alpha1
      kind: StorageCapacityArgs
      {settings}
"""

    def helm_values(self, findings: Iterable[Finding]) -> str:
        """The settings, and `tonnage pools` where a finding asks for it, as values of the chart."""
        asking: dict[str, set[str]] = {}
        for finding in findings:
            if finding.name in _ASKING_FOR_POOLS and (source := SOURCES_OF_POOLS.get(finding.driver)) is not None:
                asking.setdefault(source, set()).add(finding.name)
        lines = ["scheduler:", f"  schedulerName: {SCHEDULER_NAME}", "  storageCapacity:"]
        for name, value in self._written.items():
            lines += [f"    # {printable(self.why[name])}", f"    {name}: {value}"]
        for number, (source, names) in enumerate(sorted(asking.items())):
            if number:  # a release runs `tonnage pools` for one source
                lines += [f"# and in a release of its own, with scheduler.enabled: false, pools.source: {source}"]
                continue
            lines += [f"# doctor found: {', '.join(sorted(names))}", "pools:", "  enabled: true", f"  source: {source}"]
            lines += ["  setCapacityGroups: true"] if "classes-share-disks" in names else []
        return "\n".join(lines) + "\n"

    def document(self) -> dict[str, Any]:
        return {**self.settings, "why": dict(self.why), "file": self.file}


def recommendation_of(facts: Facts, figures: Mapping[str, DriverFigures]) -> Recommendation:
    publishing = {
        name: each for name, each in figures.items() if any(facts.is_checked(found) for found in each.objects)
    }
    reservation, why = _reservation(publishing)
    reasons = {"legacyPools": _why_bounded(publishing), "poolFit": _why_preferred(facts, publishing)}
    return Recommendation(reservation, {"reservation": why, **reasons})


def _reservation(publishing: Mapping[str, DriverFigures]) -> tuple[Reservation, str]:
    if not publishing:
        return Reservation.NONE, "no driver publishes capacity: there is nothing to reserve, and no promise to weaken"
    slow = [name for name, each in publishing.items() if each.stale or each.provisioning is Provisioning.THIN]
    if slow:
        return Reservation.LEDGER, (
            f"figures of {named(slow)} lag behind; promised bytes are counted until the figures show them; Object "
            "would hold back whole capacity objects for that long"
        )
    return Reservation.LEDGER, "promised bytes are counted until the figures show them; no pod waits for a refresh"


def _why_bounded(publishing: Mapping[str, DriverFigures]) -> str:
    sums = {name: each for name, each in publishing.items() if each.sums}
    thin = [name for name, each in sums.items() if each.provisioning is Provisioning.THIN]
    if not sums:
        return f"it is not used, since {'every object lists its pools' if publishing else 'there are no objects'}"
    if thin and len(thin) == len(sums):
        return (
            f"{named(thin)} reports sums that do not change with its volumes; Independent, which checks each claim by "
            f"itself, would let more pods in, {WEAKER}"
        )
    several = [name for name, each in sums.items() if each.sums_beyond_one_volume]
    if several:
        return (
            f"{named(several)} reports a sum larger than its largest volume: both are limits, and Strict would refuse "
            "pods that run today"
        )
    return f"{named(list(sums))} reports one number in each object: Strict and Bounded then mean the same"


def _why_preferred(facts: Facts, publishing: Mapping[str, DriverFigures]) -> str:
    picking = {name for name, each in publishing.items() if each.most_pools > 1}
    if not picking:
        return "no object lists several pools, so the driver has no choice"
    pods = sorted(_pods_with_several_claims(facts, picking))
    if not pods:
        return "no pod has several claims of a class whose driver picks among pools"
    return (
        f"{named(sorted(picking))} picks among several pools, and pods have several claims of one class "
        f"({named(pods)}): nodes where they fit whatever pools it picks come first, nodes where a bad pick may refuse "
        "a volume come last; Guaranteed leaves the last ones out"
    )


def _pods_with_several_claims(facts: Facts, drivers: set[str]) -> Iterator[str]:
    """The pods that have more than one claim of one class of these drivers."""
    for key, pod in facts.pods.items():
        claims = map(facts.claims.get, pod.claim_keys())
        classes = Counter(claim.class_name for claim in claims if claim is not None)
        if any(count > 1 and facts.driver_of_class(name) in drivers for name, count in classes.items()):
            yield key


def configuration_finding(recommended: Recommendation) -> Finding:
    told = [f"{name}: {value} ({recommended.why[name]})" for name, value in recommended.settings.items()]
    return CATALOGUE["configuration"].about(
        "KubeSchedulerConfiguration tonnage",
        "; ".join(told),
        "save the file below and start `tonnage scheduler --config FILE`, or install the chart with the values that "
        f"`-o helm-values` prints; pods choose it with schedulerName: {SCHEDULER_NAME}",
    )


SEED: Final = 0
_NOT_TRIED: Final = (causes.ASSUMED, causes.TERMINATING, causes.FOREIGN, causes.GATED, causes.NOBODY)


@dataclass(slots=True)
class SwitchComparison:
    """Pods by the effect of a switch."""

    waiting: int = 0
    """Pods that wait now and that both schedulers were asked about."""
    stops_waiting: list[Key] = field(default_factory=list)
    """They wait now, and Tonnage places them."""
    either: int = 0
    """How many of `stops_waiting` kube-scheduler's rules would place too: they do not wait because of the rules."""
    refused: list[tuple[Key, str, str]] = field(default_factory=list)
    """They wait now; kube-scheduler would send them to a node without room for their volumes: pod, node, reason."""
    only_theirs: list[tuple[Key, str]] = field(default_factory=list)
    """They wait now; kube-scheduler would place them and Tonnage would not: pod, reason."""
    becomes_pending: list[tuple[Key, str]] = field(default_factory=list)
    """They run now; if recreated, Tonnage would place them nowhere, and kube-scheduler where they are."""
    moves: list[Key] = field(default_factory=list)
    """They run now; if recreated, Tonnage would place them elsewhere."""


def their_rules() -> Configuration:
    return default_configuration(gates=preset_gates(PRESETS["kube-scheduler"], Gates()))


def pods_with_claims(facts: Facts) -> Sequence[Pod]:
    """Running pods that the two schedulers may judge differently."""
    return [
        pod
        for pod in facts.pods.values()
        if pod.spec.node_name in facts.nodes
        and not pod.is_terminal
        and not pod.metadata.is_terminating
        and pod.claim_names()
    ]


def compare_waiting(
    state: sources.ClusterState,
    decided: Iterable[PendingPod],
    ours: Sequence[ResolvedProfile],
    found: SwitchComparison,
    step: sources.Step,
    thin: frozenset[str] = frozenset(),
) -> None:
    """Compare Tonnage's decisions about waiting pods with kube-scheduler's, in the same order. Our rules judge whether
    drivers accept kube-scheduler's placements, one after the other; classes of `thin` drivers never lack room."""
    theirs = explain.DecisionSequence(dataclasses.replace(state, memory=None), their_rules(), is_default=True)
    judge = _judge(state.objects, ours, state.clock.now())
    for each in decided:
        if each.cause.kind not in _NOT_TRIED:
            found.waiting += 1
            sent_to, *_ = theirs.quickly_decide(each.pod)
            why = _refused_there(judge, each.pod, sent_to) if sent_to else ""
            if why and thin.isdisjoint(_classes_of(judge, each.pod)):
                found.refused.append((each.key, sent_to, why))
                sent_to = ""
            if each.node:
                found.stops_waiting.append(each.key)
                found.either += bool(sent_to)
            elif sent_to:
                found.only_theirs.append((each.key, each.explanation.message if each.explanation is not None else ""))
        step(1)


def _classes_of(judge: Judge, pod: Pod) -> set[str]:
    claims = judge.engine.cluster.storage.claims
    found = map(claims.get, pod.claim_keys())
    return {claim.class_name for claim in found if claim is not None}


def _refused_there(judge: Judge, pod: Pod, node: str) -> str:
    """Why the driver would refuse the pod's volumes on the node, else empty. The pod counts there afterwards."""
    verdict = ShadowVerdict(pod.key, node, node, agreed=True)
    if pod.claim_names():
        verdict = verdict_of(judge.decide(pod), node)
    judge.follow(pod, verdict)
    return verdict.why if verdict.by_storage and NOT_ENOUGH_SPACE in verdict.why else ""


def _judge(objects: Iterable[Object], profiles: Sequence[ResolvedProfile], now: datetime) -> Judge:
    judge = Judge(profiles, clock=VirtualClock(now), seed=SEED, implies_namespaces=True)
    judge.engine.load(objects)
    return judge


def _admits(engine: Engine, pod: Pod) -> tuple[bool, bool, str]:
    """Whether a running pod, if recreated, is admitted on its node; whether on any node; and if on none, why."""
    engine.delete(pod)
    try:
        anew = changed(pod, spec={"node_name": ""}, status=type(pod.status)())
        profile = engine.profile_of(anew) or next(iter(engine.profiles.values()))
        decision = profile.decider.decide(engine.cluster, PodInfo(anew), diagnose=True)
        diagnosis = decision.diagnosis
        if diagnosis is None or diagnosis.refusal is not None:
            return False, decision.fits, diagnosis.message() if diagnosis is not None else ""
        row = engine.cluster.row_of[pod.spec.node_name]
        return int(diagnosis.first[row]) == NOBODY, decision.fits, "" if decision.fits else diagnosis.message()
    finally:
        engine.add(pod)


def compare_running(facts: Facts, ours: Sequence[ResolvedProfile], found: SwitchComparison, step: sources.Step) -> None:
    """Would running pods be admitted again? kube-scheduler's rules judge only pods that Tonnage would not admit."""
    running = pods_with_claims(facts)
    if not running:
        return
    our_rules, others = _judge(facts.objects, ours, facts.now).engine, None
    for pod in running:
        stays, fits, why = _admits(our_rules, pod)
        if not stays:
            others = others or _judge(facts.objects, their_rules().profiles, facts.now).engine
            stays_there, _, _ = _admits(others, pod)
            if stays_there and fits:
                found.moves.append(pod.key)
            elif stays_there:
                found.becomes_pending.append((pod.key, why))
        step(1)


def switch_findings(found: SwitchComparison) -> Iterable[Finding]:
    if found.stops_waiting:
        count = len(found.stops_waiting)
        yield CATALOGUE["pods-would-stop-pending"].about(
            f"Pod {named(found.stops_waiting)}",
            f"{count} of {found.waiting} pending pods would be placed by Tonnage, "
            f"{found.either if found.either else 'none'} of them also by kube-scheduler",
            "set their spec.schedulerName to Tonnage's, or let Tonnage be the scheduler"
            if found.either < count
            else "check that the scheduler they ask for runs; if they were created just now, wait",
        )
    for node, keys in grouped((node, key) for key, node, _ in found.refused).items():
        why = next(why for key, _, why in found.refused if key == keys[0])
        yield CATALOGUE["volumes-would-be-refused"].about(
            f"Pod {named(keys)}",
            f"kube-scheduler would send {_pods(len(keys))} to {node}, where the driver would refuse volumes: {why}",
            "add the missing capacity; Tonnage would send them to another node, or let them wait until there is room",
        )
    for why, keys in grouped((why, key) for key, why in (*found.becomes_pending, *found.only_theirs)).items():
        yield CATALOGUE["pods-would-become-pending"].about(
            f"Pod {named(keys)}",
            f"kube-scheduler would place {_pods(len(keys))}, and Tonnage would not: {why}",
            "add the missing capacity before the switch; `tonnage explain --pod` shows each node",
        )
    if found.moves:
        yield CATALOGUE["pods-would-move"].about(
            f"Pod {named(found.moves)}",
            f"{_pods(len(found.moves))} would not fit again where {'it runs' if len(found.moves) == 1 else 'they run'},"
            " but would on another node",
            "nothing to do: running pods stay where they are",
        )


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
