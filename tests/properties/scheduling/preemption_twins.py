"""Preemption once more, slowly: one node at a time, plain Python on plain facts.

`Facts` is a pod and `NodeFacts` a node with all that matters here; the objects that the scheduler is told of are made
from them, and the twin reads nothing else. Filters and preemption follow upstream's (v1.36) step by step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.small_groups import PodDisruptionBudget
from tonnage.testing.builders import node, pod

Doc = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """A pod. `apart` and `near` are (topology key, app) that it does not want, or wants, beside it."""

    name: str
    cpu_m: int = 0
    memory: int = 0
    priority: int = 0
    start_s: int | None = None
    app: str = ""
    port: int = 0
    apart: tuple[str, str] | None = None
    near: tuple[str, str] | None = None
    spread: str = ""
    zone: str = ""
    claims: tuple[str, ...] = ()
    terminating: str = ""
    """Empty, "deleted", or "preempted"."""
    nominated: str = ""
    never: bool = False

    def pod(self, on: str = "") -> Pod:
        affinity: Doc = {}
        for kind, term in (("podAntiAffinity", self.apart), ("podAffinity", self.near)):
            if term is not None:
                required = [{"topologyKey": term[0], "labelSelector": {"matchLabels": {"app": term[1]}}}]
                affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        spec: Doc = {"affinity": affinity}
        if self.spread:
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": self.spread}},
                }
            ]
        if self.never:
            spec["preemptionPolicy"] = "Never"
        spec["volumes"] = [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": each}}
            for number, each in enumerate(self.claims)
        ]
        status: Doc = {"nominatedNodeName": self.nominated}
        if self.start_s is not None:
            status["startTime"] = f"2026-01-01T00:00:{self.start_s:02}Z"
        if self.terminating == "preempted":
            status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
        return pod(
            self.name,
            cpu=f"{self.cpu_m}m" if self.cpu_m else None,
            memory=str(self.memory) if self.memory else None,
            priority=self.priority,
            labels={"app": self.app} if self.app else {},
            host_ports=[self.port] if self.port else [],
            node_selector={"zone": self.zone} if self.zone else {},
            on=on,
            spec=spec,
            status=status,
            metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"} if self.terminating else {},
        )


@dataclass(frozen=True)
class NodeFacts:
    """A node; `volumes` is how many of one driver's it takes, None for any number."""

    name: str
    cpu_m: int
    memory: int
    pods: int
    zone: str
    unschedulable: bool
    volumes: int | None

    def node(self) -> Node:
        return node(
            self.name,
            cpu=f"{self.cpu_m}m",
            memory=str(self.memory),
            pods=self.pods,
            labels={"zone": self.zone} if self.zone else {},
            unschedulable=self.unschedulable,
        )


@dataclass(frozen=True)
class BudgetFacts:
    name: str
    app: str | None
    """Whom it means; None for an empty selector."""
    allowed: int
    disrupted: tuple[str, ...] = ()

    def budget(self) -> PodDisruptionBudget:
        selector: Doc = {} if self.app is None else {"matchLabels": {"app": self.app}}
        return convert(
            PodDisruptionBudget,
            {
                "kind": "PodDisruptionBudget",
                "metadata": {"name": self.name, "namespace": "default"},
                "spec": {"selector": selector},
                "status": {
                    "disruptionsAllowed": self.allowed,
                    "disruptedPods": dict.fromkeys(self.disrupted, "2026-01-01T00:00:00Z"),
                },
            },
        )


@dataclass(frozen=True)
class Seen:
    """Everything the twin decides on. `one_pod` are the claims that only one pod may have."""

    nodes: Mapping[str, NodeFacts]
    there: Mapping[str, tuple[Facts, ...]]
    budgets: Sequence[BudgetFacts]
    expected: Mapping[str, tuple[Facts, ...]]
    one_pod: frozenset[str]

    def with_pods(self, name: str, pods: Sequence[Facts]) -> Seen:
        return replace(self, there={**self.there, name: tuple(pods)})

    def label(self, name: str, key: str) -> str:
        return self.nodes[name].zone if key == "zone" else name

    def all_pods(self) -> list[tuple[str, Facts]]:
        return [(name, each) for name in self.nodes for each in self.there.get(name, ())]


# -- filters ----------------------------------------------------------------------------------------------------------


def refusal(seen: Seen, asking: Facts, name: str) -> tuple[list[str], bool]:
    """(reasons of the first filter to object, beyond preemption); ([], False) when all let the node pass."""
    its = seen.nodes[name]
    there = seen.there.get(name, ())
    if its.unschedulable:
        return ["node(s) were unschedulable"], True
    if asking.zone and its.zone != asking.zone:
        return ["node(s) didn't match Pod's node affinity/selector"], True
    if asking.port and any(each.port == asking.port for each in there):
        return ["node(s) didn't have free ports for the requested pod ports"], False
    short, is_hopeless = [], False
    if len(there) + 1 > its.pods:
        short.append("Too many pods")
    for resource in ("cpu_m", "memory"):
        asked, has = getattr(asking, resource), getattr(its, resource)
        if asked and asked > has - sum(getattr(each, resource) for each in there):
            short.append(f"Insufficient {resource.removesuffix('_m')}")
            is_hopeless |= asked > has
    if short:
        return short, is_hopeless
    wanted = seen.one_pod.intersection(asking.claims)
    if any(wanted.intersection(each.claims) for _, each in seen.all_pods()):
        return [
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
            " already in-use by another pod"
        ], False
    mounted = {claim for each in there for claim in each.claims}
    new = set(asking.claims) - mounted
    if its.volumes is not None and new and len(mounted) + len(new) > its.volumes:
        return ["node(s) exceed max volume count"], False
    return _spread(seen, asking, name) or _affinity(seen, asking, name) or ([], False)


def _spread(seen: Seen, asking: Facts, name: str) -> tuple[list[str], bool] | None:
    told = "node(s) didn't match pod topology spread constraints"
    if not asking.spread:
        return None
    if not seen.nodes[name].zone:
        return [f"{told} (missing required label)"], True
    counting = [each for each in seen.nodes.values() if each.zone and asking.zone in ("", each.zone)]
    counts = {each.zone: 0 for each in counting}
    for each in counting:
        pods = seen.there.get(each.name, ())
        counts[each.zone] += sum(other.app == asking.spread and not other.terminating for other in pods)
    fewest = min(counts.values(), default=0)
    skew = counts.get(seen.nodes[name].zone, 0) + (asking.app == asking.spread) - fewest
    return ([told], False) if skew > 1 else None


def _affinity(seen: Seen, asking: Facts, name: str) -> tuple[list[str], bool] | None:
    pods = seen.all_pods()
    if asking.near is not None:
        key, app = asking.near
        company = [where for where, each in pods if each.app == app and seen.label(where, key)]
        is_there = any(seen.label(where, key) == seen.label(name, key) for where in company)
        is_first = not company and asking.app == app
        if not seen.label(name, key) or not (is_there or is_first):
            return ["node(s) didn't match pod affinity rules"], True
    if asking.apart is not None:
        key, app = asking.apart
        if seen.label(name, key) and any(
            each.app == app and seen.label(where, key) == seen.label(name, key) for where, each in pods
        ):
            return ["node(s) didn't match pod anti-affinity rules"], False
    for where, each in pods:
        if each.apart is not None and each.apart[1] == asking.app:
            key = each.apart[0]
            if seen.label(name, key) and seen.label(where, key) == seen.label(name, key):
                return ["node(s) didn't satisfy existing pods anti-affinity rules"], False
    return None


def refusal_with_nominated(seen: Seen, asking: Facts, name: str) -> tuple[list[str], bool]:
    """RunFilterPluginsWithNominatedPods"""
    ahead = [each for each in seen.expected.get(name, ()) if each.priority >= asking.priority]
    # Ours: one that asks for more than the whole node has will never be there, and keeps nobody out.
    whole = seen.nodes[name]
    ahead = [each for each in ahead if each.cpu_m <= whole.cpu_m and each.memory <= whole.memory]
    if ahead:
        told = refusal(seen.with_pods(name, (*seen.there.get(name, ()), *ahead)), asking, name)
        if told[0]:
            return told
    return refusal(seen, asking, name)


# -- preemption -------------------------------------------------------------------------------------------------------


def _importance(each: Facts) -> tuple[int, float, str]:
    return -each.priority, float("inf") if each.start_s is None else each.start_s, f"default/{each.name}"


def _violating(pods: Sequence[Facts], budgets: Sequence[BudgetFacts]) -> list[Facts]:
    """filterPodsWithPDBViolation"""
    allowed = [each.allowed for each in budgets]
    found = []
    for each in pods:
        is_violated = False
        for number, budget in enumerate(budgets):
            if not each.app or budget.app != each.app or each.name in budget.disrupted:
                continue
            allowed[number] -= 1
            is_violated |= allowed[number] < 0
        if is_violated:
            found.append(each)
    return found


def victims_on(seen: Seen, asking: Facts, name: str) -> tuple[list[Facts], int] | list[str]:
    """SelectVictimsOnNode"""
    there = list(seen.there.get(name, ()))
    lesser = sorted((each for each in there if each.priority < asking.priority), key=_importance)
    if not lesser:
        return ["No preemption victims found for incoming pod"]
    staying = [each for each in there if each not in lesser]
    told, _ = refusal_with_nominated(seen.with_pods(name, staying), asking, name)
    if told:
        return told
    dear = _violating(lesser, seen.budgets)
    victims, violations = [], 0
    for each in (*dear, *(each for each in lesser if each not in dear)):
        if refusal_with_nominated(seen.with_pods(name, [*staying, each]), asking, name)[0]:
            victims.append(each)
            violations += each in dear
        else:
            staying.append(each)
    return sorted(victims, key=_importance), violations


Outcome = tuple[str, list[str], int] | str
"""(node, names of the victims, budget violations), or what is said instead."""


def outcome(seen: Seen, asking: Facts, row_of: Mapping[str, int]) -> Outcome | None:
    """Evaluator.Preempt, after a search for a node; None when that finds one."""
    refusals = {name: refusal_with_nominated(seen, asking, name) for name in seen.nodes}
    if not all(told for told, _ in refusals.values()):
        return None
    if asking.never:
        return "preemption: not eligible due to preemptionPolicy=Never."
    if asking.nominated in seen.nodes and not refusals[asking.nominated][1]:
        there = seen.there.get(asking.nominated, ())
        if any(each.priority < asking.priority and each.terminating == "preempted" for each in there):
            return "preemption: not eligible due to a terminating pod on the nominated node."
    told: Counter[str] = Counter()
    candidates = {}
    for name, (_, is_final) in refusals.items():
        if is_final:
            told["Preemption is not helpful for scheduling"] += 1
            continue
        answer = victims_on(seen, asking, name)
        if isinstance(answer, list):
            told.update(answer)
        else:
            candidates[name] = answer
    if not candidates:
        text = ", ".join(sorted(f"{count} {reason}" for reason, count in told.items()))
        return f"preemption: 0/{len(seen.nodes)} nodes are available: {text}."

    def cost(name: str) -> tuple[float, ...]:
        victims, violations = candidates[name]
        highest = max(each.priority for each in victims)
        starts = [_importance(each)[1] for each in victims if each.priority == highest]
        total = sum(each.priority + 2**31 for each in victims)
        return violations, highest, total, len(victims), -min(starts), row_of[name]

    best = min(candidates, key=cost)
    victims, violations = candidates[best]
    return best, [each.name for each in victims], violations
