"""What a kubelet refuses: each rule, in its words, and whom it preempts for a critical pod."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.behaviour.nodes.kubelet_admission import AdmittedPods, KubeletPreemption, PodRejection, admission
from tonnage.objects.core_v1 import Node, Pod
from tonnage.testing.builders import node, pod

MORE: dict[str, Any] = {"example.com/gpu": "2", "ephemeral-storage": "10Gi"}
NODE = node("n1", cpu="4", memory="8Gi", pods=3, **MORE)
CRITICAL = 2_000_000_000
MI = 1024 * 1024


def admitted(*pods: Pod) -> AdmittedPods:
    made = AdmittedPods()
    for each in pods:
        made.admit(each)
    return made


def rejection(newcomer: Pod, *others: Pod, on: Node = NODE) -> tuple[str, str] | None:
    verdict = admission(newcomer, on, admitted(*others))
    assert not isinstance(verdict, KubeletPreemption)
    return None if verdict is None else (verdict.reason, verdict.message)


def out_of(name: str, requested: int, used: int, capacity: int) -> tuple[str, str]:
    told = f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
    return f"OutOf{name}", told


def asking(**resources: Any) -> Pod:
    return pod("new", on="n1", **{name.replace("_", "-"): text for name, text in resources.items()})


@pytest.mark.parametrize(
    ("newcomer", "expected"),
    [
        (asking(cpu="1M"), out_of("cpu", 1_000_000_000, 1000, 4000)),
        (asking(cpu="3"), None),
        (asking(cpu="3001m"), out_of("cpu", 3001, 1000, 4000)),
        (asking(cpu="9E"), out_of("cpu", 2**63 - 1, 1000, 4000)),
        (asking(memory="9Gi"), out_of("memory", 9 * 1024 * MI, 0, 8 * 1024 * MI)),
        (asking(ephemeral_storage="11Gi"), out_of("ephemeral-storage", 11 * 1024 * MI, 0, 10 * 1024 * MI)),
        (asking(**{"hugepages-2Mi": "4Mi"}), out_of("hugepages-2Mi", 4 * MI, 0, 0)),
        (asking(**{"example.com/gpu": "3"}), out_of("example.com/gpu", 3, 0, 2)),
        # What the node does not know is counted for the whole cluster by somebody else, or not at all.
        (asking(**{"example.com/unknown": "3"}), None),
        # Of several the first is told, in upstream's order.
        (asking(memory="9Gi", cpu="9"), out_of("cpu", 9000, 1000, 4000)),
    ],
)
def test_a_pod_that_asks_for_more_than_is_left_is_out_of_it(newcomer: Pod, expected: tuple[str, str] | None) -> None:
    assert rejection(newcomer, pod("old", on="n1", cpu="1")) == expected


def test_a_node_takes_as_many_pods_as_it_says() -> None:
    others = [pod(f"old-{number}", on="n1") for number in range(3)]
    assert rejection(asking(), *others[:2]) is None
    assert rejection(asking(cpu="9"), *others) == out_of("pods", 1, 3, 3)


def test_overhead_init_containers_and_sidecars_count() -> None:
    def container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "image": "app:1", "resources": {"requests": {"cpu": cpu}}, **more}

    init = [container("side", "1", restartPolicy="Always"), container("init", "2500m")]
    # max(1 + 1, 1 + 2.5) + 1 overhead = 4.5
    newcomer = pod("new", spec={"containers": [container("main", "1")], "initContainers": init, "overhead": {"cpu": 1}})
    assert rejection(newcomer) == out_of("cpu", 4500, 0, 4000)


def test_an_overhead_of_a_resource_that_the_node_lacks_is_not_passed_over() -> None:
    overhead = {"example.com/unknown": "5"}
    request: dict[str, Any] = {"example.com/unknown": "1"}
    newcomer = pod("new", spec={"overhead": overhead}, **request)
    assert rejection(newcomer) == out_of("example.com/unknown", 5, 0, 0)


@pytest.mark.parametrize(
    ("newcomer", "reason", "told"),
    [
        (
            pod("new", node_selector={"disk": "ssd"}),
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            pod("new", on="n2"),
            "NodeName",
            "Predicate NodeName failed: node(s) didn't match the requested node name",
        ),
        (
            pod("new", host_ports=[80]),
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        ),
        (
            pod("new", labels={"kubernetes.io/os": "windows"}),
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        ),
        (
            pod("new", spec={"os": {"name": "windows"}}),
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        ),
        (
            pod("new", spec={"securityContext": {"sysctls": [{"name": "kernel/msgmax", "value": "1"}]}}),
            "SysctlForbidden",
            'forbidden sysctl: "kernel.msgmax" not allowlisted',
        ),
        (
            pod(
                "new",
                spec={
                    "hostNetwork": True,
                    "securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]},
                },
            ),
            "SysctlForbidden",
            'forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled',
        ),
    ],
)
def test_a_pod_that_does_not_match_its_node_is_told_so(newcomer: Pod, reason: str, told: str) -> None:
    assert rejection(newcomer, pod("old", host_ports=[80])) == (reason, told)


def test_only_taints_that_turn_pods_out_count() -> None:
    told = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
    tainted = node("n1", taints=["a=b:NoExecute"])
    assert rejection(asking(), on=tainted) == ("TaintToleration", told)
    assert rejection(pod("new", tolerations=[{"key": "a", "operator": "Exists"}]), on=tainted) is None
    assert rejection(asking(), on=node("n1", taints=["a=b:NoSchedule"], unschedulable=True)) is None


def test_what_a_pod_held_is_free_when_it_is_released() -> None:
    held = admitted(pod("old", cpu="4", host_ports=[80]))
    newcomer = pod("new", cpu="4", host_ports=[80])
    assert admission(newcomer, NODE, held) is not None
    held.release("default-old")
    held.release("default-old")
    assert admission(newcomer, NODE, held) is None and list(held) == []


def test_a_pod_that_went_unnoticed_makes_room() -> None:
    held = admitted(pod("old", cpu="4"), pod("gone", cpu="0"))
    newcomer = pod("new", cpu="4")
    assert isinstance(held.judge(newcomer, NODE, lambda uid: uid != "default-gone"), PodRejection)
    assert held.judge(newcomer, NODE, lambda _: False) is None
    assert [each.uid for each in held] == ["default-new"]
    # It is judged once: what it holds stays its own on a node that shrank.
    assert held.judge(newcomer, node("n1", cpu="1"), lambda _: True) is None


# -- preemption -------------------------------------------------------------------------------------------------------


def of_class(name: str, cpu: str, qos: str, priority: int = 0, memory: str | None = None) -> Pod:
    return pod(name, cpu=cpu, memory=memory, priority=priority, status={"qosClass": qos})


def victims(newcomer: Pod, *others: Pod) -> set[str]:
    verdict = admission(newcomer, node("n1", cpu="4"), admitted(*others))
    assert isinstance(verdict, KubeletPreemption), verdict
    return {uid.removeprefix("default-") for uid in verdict.victims}


def test_a_critical_pod_preempts_the_fewest_and_least_important() -> None:
    others = [
        of_class("guaranteed", "1", "Guaranteed"),
        of_class("small", "500m", "Burstable"),
        of_class("large", "1500m", "Burstable"),
        of_class("critical", "1", "Guaranteed", CRITICAL),
    ]
    assert victims(pod("new", cpu="500m", priority=CRITICAL), *others) == {"small"}
    assert victims(pod("new", cpu="1", priority=CRITICAL), *others) == {"large"}
    # 2 are missing, the burstable ones are 2 together.
    assert victims(pod("new", cpu="2", priority=CRITICAL), *others) == {"small", "large"}
    assert victims(pod("new", cpu="3", priority=CRITICAL), *others) == {"small", "large", "guaranteed"}
    assert victims(pod("new", cpu="4", priority=CRITICAL + 1), *others) == {"small", "large", "guaranteed", "critical"}


def test_of_two_alike_the_pod_with_less_memory_goes() -> None:
    others = [of_class("more", "2", "Burstable", memory="2Gi"), of_class("less", "2", "Burstable", memory="1Gi")]
    assert victims(pod("new", cpu="1", priority=CRITICAL), *others) == {"less"}


def test_a_critical_pod_that_nobody_can_make_room_for_is_rejected_and_nobody_goes() -> None:
    others = [of_class("small", "1", "Burstable")]
    newcomer = pod("new", cpu="5", priority=CRITICAL)
    verdict = admission(newcomer, node("n1", cpu="4"), admitted(*others))
    # 5 - (4 - 1) = 2 are missing, of which the small one has 1.
    assert verdict == PodRejection(
        "UnexpectedAdmissionError",
        "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods "
        "to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 1000), ]",
    )


def test_a_critical_pod_that_would_not_match_anyway_preempts_nobody() -> None:
    newcomer = pod("new", cpu="4", priority=CRITICAL, node_selector={"disk": "ssd"})
    found = rejection(newcomer, of_class("small", "1", "Burstable"))
    assert found is not None and found[0] == "NodeAffinity"


def test_pods_that_are_merely_important_preempt_nobody() -> None:
    assert rejection(pod("new", cpu="4", priority=CRITICAL - 1), of_class("small", "1", "Burstable")) is not None
