"""The budgets of DESIGN section 8 as data, and how a script tells the figure it measured.

    from budgets import figure
    figure("decision-equal-5000-ledger", 118.0)          # in the unit of the budget

A script prints its own table as before. `make perf` (`perf/run.py`) runs them all, gathers the figures and prints one
table of goal, figure and verdict at the end; a script that runs by itself tells nobody. Budgets are never asserted in a
test: a machine that is busy would fail it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

FIGURES_FILE = "TONNAGE_PERF_FIGURES"
"""The environment variable with the file that figures are added to, a JSON document a line."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What is measured, and the goal: at most that much, or at least."""

    key: str
    what: str
    goal: float
    unit: str
    script: str
    at_least: bool = False

    def is_met_by(self, value: float) -> bool:
        return value >= self.goal if self.at_least else value <= self.goal


def _at_most(key: str, what: str, goal: float, unit: str, script: str) -> Budget:
    return Budget(key, what, goal, unit, script)


def _at_least(key: str, what: str, goal: float, unit: str, script: str) -> Budget:
    return Budget(key, what, goal, unit, script, at_least=True)


BUDGETS = (
    _at_most(
        "decision-equal-5000-object", "one decision, equal pods, a claim, 5,000 nodes, Object", 250, "µs", "volumes"
    ),
    _at_most("decision-equal-5000-ledger", "the same, Ledger", 250, "µs", "volumes"),
    _at_most("decision-equal-50000-object", "the same, 50,000 nodes, Object", 250, "µs", "volumes"),
    _at_most("decision-equal-50000-ledger", "the same, 50,000 nodes, Ledger", 250, "µs", "volumes"),
    _at_most("decision-unlike-5000", "unlike pods, a claim, 5,000 nodes", 1.5, "ms", "volumes"),
    _at_most("decision-unlike-50000", "unlike pods, a claim, 50,000 nodes", 10.0, "ms", "volumes"),
    _at_most(
        "volume-binding-p99", "VolumeBinding, p99 of one decision, hard mixes, 5,000 nodes", 10, "ms", "volume_binding"
    ),
    _at_most("volume-binding-crowd", "8 to 16 claims beside 12 promises a node, p99", 50, "ms", "volume_binding"),
    _at_most("preemption-first", "the first preempting decision, 5,000 full nodes", 50, "ms", "preemption"),
    _at_most("preemption-ports", "the same, pods with host ports", 50, "ms", "preemption"),
    _at_least(
        "live-claims-1000-ratio", "live, a claim a pod, 1,000 nodes, against kube-scheduler", 125, "times", "peers"
    ),
    _at_least("live-claims-5000", "live, a claim a pod, 5,000 nodes, on a kube-apiserver", 500, "/s", "peers"),
    _at_least("live-three-claims-5000", "live, three claims of two classes, 5,000 nodes", 200, "/s", "peers"),
    _at_most(
        "live-early-claims", "claims written before their pod's nomination, in all of these", 0, "claims", "peers"
    ),
    _at_most("first-decision-5000", "scheduler's start to its first decision, 5,000 nodes", 1.0, "s", "peers"),
    _at_least("live-plain-5000-ratio", "live, no volumes, 5,000 nodes, against kube-scheduler", 3.5, "times", "peers"),
    _at_most(
        "queue-attempts",
        "attempts a useful one, 400 pods on 30 nodes that hold 150, worst of 8",
        2,
        "times",
        "queue_pressure",
    ),
    _at_most(
        "queue-slowdown",
        "CPU of 200 pods that fit beside 2,000 that cannot, alike or all different",
        2,
        "times",
        "queue_pressure",
    ),
    _at_most("chain-100", "100 pods with a claim, applied to Running, 3 nodes", 2.5, "s", "cluster"),
    _at_most("chain-1000", "1,000 pods with a claim, applied to Running, 100 nodes", 25, "s", "cluster"),
    _at_most("up-ready", "tonnage up of 3 nodes, ready", 1.5, "s", "first_second"),
    _at_most("up-pss", "tonnage up of 3 nodes, all processes, proportional set size", 300, "MB", "first_second"),
    _at_most("help", "tonnage --help", 0.3, "s", "first_second"),
    _at_most("explain-1000", "explain of a dump of 1,000 nodes", 0.8, "s", "first_second"),
    _at_most("launcher", "what ./tonnage adds once set up", 0.05, "s", "first_second"),
    _at_least("creates-pods", "API server, durable creates of pods, 32 connections", 1800, "/s", "apiserver"),
    _at_most("restart-100000", "API server, ready again with 100,000 objects", 5, "s", "apiserver_restart"),
    _at_most("scheduler-memory", "scheduler's memory, 5,000 nodes, 10,000 pods", 300, "MB", "scheduler_live"),
    _at_most("simulate-seconds", "simulate 5,000 nodes, 50,000 pods with a claim", 75, "s", "simulate"),
    _at_most("simulate-memory", "the same, memory", 1024, "MB", "simulate"),
    _at_most(
        "pending-few-kinds", "what waits: 2,000 hopeless pods on 5,000 nodes, told whole, CPU", 10, "s", "pending"
    ),
    _at_most("pending-unlike", "the same, all of different sizes", 10, "s", "pending"),
    _at_most("dashboard-drawn", "dashboard, 5,000 nodes, 20,000 claims, first drawn", 2, "s", "dashboard"),
    _at_most("dashboard-gap", "the same, ten changes a second, longest time without a frame", 200, "ms", "dashboard"),
    _at_most("dashboard-page-cpu", "the same, the page's CPU a change", 20, "ms", "dashboard"),
)
_BY_KEY = {budget.key: budget for budget in BUDGETS}


def figure(key: str, value: float, note: str = "") -> None:
    """Tell what was measured, in the budget's unit; a later figure of the same key takes its place.

    With a `note` beside it, such as the figures that a ratio comes from. Raises KeyError for a key that no budget has.
    """
    budget = _BY_KEY[key]
    file = os.environ.get(FIGURES_FILE)
    if file:
        with Path(file).open("a") as out:
            out.write(json.dumps({"key": budget.key, "value": value, "note": note}) + "\n")


def not_measured(key: str, why: str) -> None:
    """Tell why there is no figure, such as a program that is missing; the table says so instead of a verdict."""
    budget = _BY_KEY[key]
    file = os.environ.get(FIGURES_FILE)
    if file:
        with Path(file).open("a") as out:
            out.write(json.dumps({"key": budget.key, "value": None, "note": why}) + "\n")
