"""The names that others build on. One that goes or changes its meaning is a line in CHANGELOG.md.

Each name has the reason why it is public. Everything else in the package may move with any release.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

TONNAGE = {
    "KUBERNETES_VERSION": "the release whose behaviour this one follows; bug reports name it",
    "__version__": "the one place where the version stands",
}

FRAMEWORK = {
    # What a plugin extends, by extension point.
    "Plugin": "what every plugin has: a name, its promises, the events that may help a pod it refused",
    "PreEnqueuePlugin": "may the pod be tried at all",
    "QueueSortPlugin": "in which order pods are tried",
    "PreFilterPlugin": "looks at the pod once, before all filters",
    "FilterPlugin": "which nodes can take the pod",
    "PostFilterPlugin": "makes room when nothing fits",
    "PreScorePlugin": "looks at the pod and the feasible nodes once",
    "ScorePlugin": "which of the feasible nodes is best",
    "ReservePlugin": "keeps what the pod needs on the chosen node",
    "PermitPlugin": "lets a decided pod wait",
    "PreBindPlugin": "what must be done in the cluster before the pod is bound",
    "BindPlugin": "binds the pod",
    "PostBindPlugin": "tidies up after the binding",
    # What it is handed.
    "Cycle": "one attempt to place one pod: the pod, the cluster, the plugin's own notes",
    "Api": "what a binding may do in the cluster",
    "Handle": "what a profile hands its plugins once: its decider and its randomness",
    "PluginTimes": "who measures the plugins of a cycle",
    "Rows": "which nodes a plugin is asked about",
    # What it answers.
    "Bits": "the type of the bits of a Judgement",
    "Code": "what a status means",
    "EventHint": "an event worth another try, and a function that looks closer",
    "Ints": "the type of scores",
    "Judgement": "a filter's answer for many nodes",
    "Mask": "a yes or no for many nodes",
    "Narrowing": "PreFilter's answer that only some nodes are left",
    "PostFilterResult": "PostFilter's answer: the node and the pods that have to go",
    "EventToRecord": "what a plugin tells people about an object, when a pod fits nowhere",
    "PluginCounter": "something a plugin counts, for /metrics",
    "RowAccount": "what a plugin tells people about one node, for explain",
    "Status": "an answer about the pod as a whole, or about one node in the per-node form",
    "MAX_SCORE": "the highest score of a node",
    "SKIP": "the status that spares a plugin the rest of the cycle",
    "SUCCESS": "the status of a plugin that has nothing against it",
    "refuse": "a Judgement with one reason",
    "scaled_to_max": "the usual way to normalise scores",
    "unresolvable": "a refusal that preemption cannot help",
    "unschedulable": "a refusal that preemption may help",
}

TESTING = {
    # Objects in one line.
    "node": "a Node",
    "pod": "a Pod",
    "pod_with": "a Pod that mounts claims",
    "claim": "a PersistentVolumeClaim",
    "volume": "a PersistentVolume",
    "storage_class": "a StorageClass",
    "driver": "a CSIDriver",
    "csi_node": "a CSINode with attach limits",
    "capacity": "a CSIStorageCapacity with pools",
    "attachment": "a VolumeAttachment",
    # Asking a plugin.
    "cluster_of": "the cluster that plugins are asked about, from such objects",
    "filter_results": "what a filter has against each node",
    "node_scores": "what a score plugin gives to each node",
    "decide": "a whole decision with the plugin beside the default ones",
}

PUBLIC = {"tonnage": TONNAGE, "tonnage.scheduling.framework": FRAMEWORK, "tonnage.testing": TESTING}


@pytest.mark.parametrize("module", PUBLIC)
def test_the_public_names_are_these(module: str):
    assert sorted(import_module(module).__all__) == sorted(PUBLIC[module])


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_there(module: str):
    found = import_module(module)
    assert [name for name in found.__all__ if not hasattr(found, name)] == []
    assert set(found.__all__) <= set(dir(found))


@pytest.mark.process
def test_the_module_for_tests_loads_what_is_asked_for_and_no_more():
    asks = "import sys, tonnage.testing as t; print('numpy' in sys.modules); t.node; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
