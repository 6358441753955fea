"""explain --workload tells what fit counts; --pending puts every pod that waits into one group."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from examples_tried import tries
from support.configurations import storage_configuration
from tonnage.gates import Gates
from tonnage.objects.apps_v1 import DaemonSet
from tonnage.objects.core_v1 import Pod
from tonnage.objects.meta import Object
from tonnage.scheduling.configuration.configuration import parse
from tonnage.testing.builders import node, pod
from tonnage.testing.storage_builders import capacity, claim, csi_node, driver, pod_with, storage_class
from tonnage.whatif.creation import Creation
from tonnage.whatif.expansion import WorkloadExpander
from tonnage.whatif.explain import DecisionSequence, PodState, workloads_of_files
from tonnage.whatif.fit.counting import count
from tonnage.whatif.pending.pending import PendingQuestion
from tonnage.whatif.simulate.played_cluster import PlayedCluster, PlayedWorkloads
from tonnage.whatif.sources import ClusterState, clock_of, from_files

SIZES = st.sampled_from(["10Gi", "30Gi", "60Gi", "90Gi"])
MODES = st.sampled_from(["Object", "Ledger", "None"])


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    """A few nodes with pools and slots, some closed, some in another zone."""
    objects: list[Object] = [driver(), storage_class()]
    for name in "abc"[: draw(st.integers(1, 3))]:
        objects.append(
            node(
                name,
                cpu=draw(st.sampled_from(["2", "4"])),
                labels={"topology.kubernetes.io/zone": draw(st.sampled_from(["z1", "z2"]))},
                unschedulable=draw(st.sampled_from([False, False, True])),
                taints=draw(st.sampled_from([(), (), ("dedicated=db:NoSchedule",)])),
            )
        )
        objects.append(capacity(node=name, pools=draw(st.lists(SIZES, min_size=1, max_size=3))))
        if draw(st.booleans()):
            objects.append(csi_node(name, {"csi.example": draw(st.integers(0, 3))}))
    return objects


@st.composite
def workloads(draw: st.DrawFn) -> list[dict[str, Any]]:
    found = []
    for number in range(draw(st.integers(1, 3))):
        name, kind = f"w{number}", draw(st.sampled_from(["StatefulSet", "Deployment", "DaemonSet"]))
        cpu = {"requests": {"cpu": draw(st.sampled_from(["100m", "1", "2"]))}}
        template: dict[str, Any] = {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "x", "resources": cpu}]},
        }
        spec: dict[str, Any] = {"selector": {"matchLabels": {"app": name}}, "template": template}
        wanted = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": draw(SIZES)}},
        }
        if kind != "DaemonSet":
            spec["replicas"] = draw(st.integers(0, 4))
        if kind == "StatefulSet":
            spec |= {"serviceName": name, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": wanted}]}
        else:
            template["spec"]["volumes"] = [{"name": "s", "ephemeral": {"volumeClaimTemplate": {"spec": wanted}}}]
        found.append(
            {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec}
        )
    return found


@settings(max_examples=tries(40), deadline=None)
@given(objects=clusters(), made=workloads(), mode=MODES)
def test_of_a_workload_as_many_pods_fit_as_fit_counts(objects, made, mode, tmp_path_factory):
    file = tmp_path_factory.mktemp("world") / "w.yaml"
    file.write_text(yaml.safe_dump_all(made[:1]))
    filed = from_files([str(file)], Creation(Gates()), with_workloads=True)
    every = [*objects, *filed.objects]
    state = ClusterState(every, "the test", clock_of(every), workloads=filed.workloads, origins=filed.origins)
    configuration = parse(storage_configuration(reservation=mode), source="config.yaml")
    (workload,) = workloads_of_files(state)
    if isinstance(workload, DaemonSet):
        return  # its pods are not alike: fit ends at the first that does not fit, explain does not
    expansion = WorkloadExpander(state, Creation(Gates()), []).expand(workload)
    explained = list(PlayedWorkloads(state, configuration, is_default=True).answers(expansion))
    cluster = PlayedCluster(state, configuration.profiles)
    cluster.apply(expansion.made)
    counted = count(cluster, iter(expansion.missing))
    assert sum(bool(each.node) for each in explained if each.state is PodState.NEW) == counted.count


@st.composite
def waiting(draw: st.DrawFn) -> list[Object]:
    objects: list[Object] = []
    for number in range(draw(st.integers(1, 7))):
        options: dict[str, Any] = {
            "priority": draw(st.integers(0, 1)),
            "cpu": draw(st.sampled_from(["100m", "1", "3"])),
            "node_selector": draw(st.sampled_from([{}, {}, {"topology.kubernetes.io/zone": "z1"}])),
            "on": draw(st.sampled_from(["", "", "", "a"])),
        }
        if draw(st.sampled_from([False, False, False, True])):
            options["spec"] = {"schedulingGates": [{"name": "x.io/q"}]}
        names = []
        if draw(st.booleans()):
            names = [f"c{number}"]
            objects.append(claim(names[0], draw(SIZES)))
        if options["on"]:
            options.pop("spec", None)
        objects.append(pod_with(f"p{number}", *names, **options) if names else pod(f"p{number}", **options))
    return objects


@settings(max_examples=tries(40), deadline=None)
@given(objects=clusters(), pods=waiting(), mode=MODES, explains_all=st.booleans())
def test_groups_partition_the_pods_that_wait_and_who_is_helped_waited(objects, pods, mode, explains_all):
    every = [*objects, *pods]
    state = ClusterState(every, "the test", clock_of(every))
    configuration = parse(storage_configuration(reservation=mode), source="config.yaml")
    question = PendingQuestion(
        state, DecisionSequence(state, configuration, is_default=True), explains_all=explains_all
    )
    question.decide()
    question.try_changes()
    answer = question.answer()
    grouped = [each.key for group in answer.groups for each in group.pods]
    assert sorted(grouped) == sorted(each.key for each in pods if isinstance(each, Pod) and not each.spec.node_name)
    refused = {each.key for each in answer.pods if not each.fits}
    for each in answer.helps:
        assert each.pods and refused.issuperset(each.pods)
    assert [len(each.pods) for each in answer.helps] == sorted((len(each.pods) for each in answer.helps), reverse=True)
    # Asked as if the others were not to be told in full, the placements are the same.
    other = PendingQuestion(
        state, DecisionSequence(state, configuration, is_default=True), explains_all=not explains_all
    )
    other.decide()
    assert [(each.key, each.node) for each in other.answer().pods] == [(each.key, each.node) for each in answer.pods]
