"""What a kubelet rejects: whether a node admits a pod beside its admitted pods, in kubelet 1.36's words.

    sysctls ──► operating system ──► pods, cpu, memory, ephemeral-storage, others ──► node affinity ──► host ports
                                             │                                                            ──► taints
                                             └─ too little, and the pod is critical: others are preempted

A rejected pod (OutOfcpu, OutOfmemory, …) is Failed and uses no resources. Admitted pods stay, also on a node that
shrinks. Mirrors pkg/kubelet/lifecycle, sysctl and preemption, without what needs a container runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tonnage.objects.core_v1 import Node, Pod
from tonnage.objects.requirements import NO_EXECUTE, find_untolerated
from tonnage.scheduling.cluster.columns import HostPort, HostPorts, host_ports_of
from tonnage.scheduling.cluster.pod_info import CPU, MEMORY, NATIVE, PODS, Amounts, amounts, is_extended, requests_of

PREEMPTING: Final = "Preempting"
"""`status.reason` of a pod that its kubelet ended for a critical pod."""
PREEMPTED: Final = "Preempted in order to admit critical pod"
NODE_AFFINITY: Final = "NodeAffinity"

_SYSTEM_CRITICAL: Final = 2_000_000_000
"""A pod of at least this priority is critical: system-cluster-critical and system-node-critical are."""
_OS: Final = "kubernetes.io/os"
_LINUX: Final = "linux"
_SAFE_SYSCTLS: Final = {"kernel.shm_rmid_forced": "IPC"} | {
    f"net.ipv4.{name}": "Net"
    for name in (
        "ip_local_port_range", "tcp_syncookies", "ping_group_range", "ip_unprivileged_port_start",
        "ip_local_reserved_ports", "tcp_keepalive_time", "tcp_fin_timeout", "tcp_keepalive_intvl",
        "tcp_keepalive_probes", "tcp_rmem", "tcp_wmem",
    )
}  # fmt: skip
"""The sysctls that every kubelet allows, with their namespace."""
_SWAPPED: Final = str.maketrans("./", "/.")
_MOST_LISTED: Final = 10
_ROW: Final = 0
"""`HostPorts` counts by row; here there is one node."""


@dataclass(frozen=True, slots=True)
class PodRejection:
    """The pod cannot run here: `status.reason`, and the event's message."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class KubeletPreemption:
    """The pod is critical and waits until these pods, by uid, have ended."""

    victims: tuple[str, ...]


class _Holding(NamedTuple):
    """What an admitted pod uses: as it was admitted, whatever its spec is now."""

    uid: str
    priority: int
    qos_class: str
    requests: Amounts
    ports: tuple[HostPort, ...]

    def of(self, resource: str) -> int:
        return 1 if resource == PODS else self.requests.get(resource, 0)


class AdmittedPods:
    """The pods that one node has admitted."""

    def __init__(self) -> None:
        self._holdings: dict[str, _Holding] = {}

    def __iter__(self) -> Iterator[_Holding]:
        return iter(self._holdings.values())

    def used(self, resource: str) -> int:
        return sum(holding.of(resource) for holding in self._holdings.values())

    def admit(self, pod: Pod) -> None:
        """Count a pod that is admitted, once."""
        if pod.uid in self._holdings:
            return
        holding = _Holding(
            pod.uid, pod.spec.priority, pod.status.qos_class or "BestEffort", requests_of(pod), host_ports_of(pod)
        )
        self._holdings[pod.uid] = holding

    def judge(self, pod: Pod, node: Node, is_active: Callable[[str], bool]) -> PodRejection | KubeletPreemption | None:
        """Admit the pod, or return why not. Before a rejection, pods that are not `is_active` are released."""
        if pod.uid in self._holdings:
            return None
        verdict = admission(pod, node, self)
        if verdict is not None:
            ended = [uid for uid in self._holdings if not is_active(uid)]
            for uid in ended:
                self.release(uid)
            verdict = admission(pod, node, self) if ended else verdict
        if verdict is None:
            self.admit(pod)
        return verdict

    def release(self, uid: str) -> None:
        """Undo `admit`."""
        self._holdings.pop(uid, None)


def admission(pod: Pod, node: Node, admitted: AdmittedPods) -> PodRejection | KubeletPreemption | None:
    """None if the node admits the pod beside `admitted`, which does not include it."""
    refused = _sysctl_rejection(pod) or _os_rejection(pod)
    if refused is not None:
        return refused
    shortages = list(_shortages(pod, node, admitted))
    failed = next(_failed_predicates(pod, node, admitted), None)
    if shortages and pod.spec.priority < _SYSTEM_CRITICAL:
        name, requested, used, capacity = shortages[0]
        told = f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
        return PodRejection(f"OutOf{name}", told)
    if failed is not None or not shortages:  # a critical pod never fails for lack of resources
        return failed
    missing = {name: requested - (capacity - used) for name, requested, used, capacity in shortages}
    return _preemption(pod, missing, admitted)


# -- what preemption cannot help --------------------------------------------------------------------------------------


def _sysctl_rejection(pod: Pod) -> PodRejection | None:
    for sysctl in pod.spec.security_context.sysctls:
        name = sysctl.name
        if next((character for character in name if character in "./"), ".") == "/":
            name = name.translate(_SWAPPED)  # `net/ipv4/conf/eth0.1` is `net.ipv4.conf.eth0/1`, as in sysctl(8)
        namespace = _SAFE_SYSCTLS.get(name)
        shared = {"IPC": pod.spec.host_ipc, "Net": pod.spec.host_network}
        if namespace is None:
            return PodRejection("SysctlForbidden", f'forbidden sysctl: "{name}" not allowlisted')
        if shared[namespace]:
            told = f'forbidden sysctl: "{name}" not allowed with host {namespace} enabled'
            return PodRejection("SysctlForbidden", told)
    return None


def _os_rejection(pod: Pod) -> PodRejection | None:
    """Nodes here run Linux. Upstream, too, reads a *label* of the pod, and calls it selector."""
    if pod.metadata.labels.get(_OS, _LINUX) != _LINUX:
        told = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        return PodRejection("PodOSSelectorNodeLabelDoesNotMatch", told)
    if pod.spec.os is not None and pod.spec.os.name != _LINUX:
        return PodRejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    return None


def _failed_predicates(pod: Pod, node: Node, admitted: AdmittedPods) -> Iterator[PodRejection]:
    has_affinity = pod.required_node_affinity().matches(node.name, node.metadata.labels)
    is_meant = pod.spec.node_name in ("", node.name)
    ports = HostPorts()
    for holding in admitted:
        ports.add(holding.ports, _ROW)
    has_ports = not ports.is_in_conflict(host_ports_of(pod), _ROW)
    is_tolerant = find_untolerated(node.spec.taints, pod.spec.tolerations, (NO_EXECUTE,)) is None
    for name, holds, told in (
        (NODE_AFFINITY, has_affinity, "node(s) didn't match Pod's node affinity/selector"),
        ("NodeName", is_meant, "node(s) didn't match the requested node name"),
        ("NodePorts", has_ports, "node(s) didn't have free ports for the requested pod ports"),
        ("TaintToleration", is_tolerant, "node(s) had taints that the pod didn't tolerate"),
    ):
        if not holds:
            yield PodRejection(name, f"Predicate {name} failed: {told}")


# -- resources --------------------------------------------------------------------------------------------------------


def _shortages(pod: Pod, node: Node, admitted: AdmittedPods) -> Iterator[tuple[str, int, int, int]]:
    """Shortages in upstream's order: resource, requested, used, capacity.

    An extended resource that the node does not have is not judged.
    """
    has, asked = amounts(node.status.allocatable), requests_of(pod)
    overhead = amounts(pod.spec.overhead)
    asked = {name: overhead.get(name, 0) if is_extended(name) and name not in has else asked[name] for name in asked}
    others = sorted(name for name in asked if name not in NATIVE)
    for name, amount in ((PODS, 1), *((name, asked.get(name, 0)) for name in (*NATIVE, *others))):
        used, capacity = admitted.used(name), has.get(name, 0)
        if amount > 0 and amount > capacity - used:
            yield name, amount, used, capacity


# -- preemption by the kubelet ----------------------------------------------------------------------------------------


def _preemption(pod: Pod, missing: Mapping[str, int], admitted: AdmittedPods) -> PodRejection | KubeletPreemption:
    """Preempt the fewest and smallest pods that are enough: best-effort ones first, guaranteed ones last."""
    less_important = [each for each in admitted if each.priority < pod.spec.priority]
    classes = ("BestEffort", "Burstable", "Guaranteed")
    best_effort, burstable, guaranteed = ([pod for pod in less_important if pod.qos_class == name] for name in classes)
    left = _without(missing, less_important)
    if left:
        listed = "".join(f"(res: {name}, q: {amount}), " for name, amount in [*left.items()][:_MOST_LISTED])
        told = f"no set of running pods found to reclaim resources: [{listed}]"
        tried = "Unexpected error while attempting to recover from admission failure"
        why = f"{tried}: preemption: error finding a set of pods to preempt: {told}"
        return PodRejection("UnexpectedAdmissionError", why)
    last = _closest(guaranteed, _without(missing, [*best_effort, *burstable]))
    middle = _closest(burstable, _without(missing, [*best_effort, *last]))
    first = _closest(best_effort, _without(missing, [*middle, *last]))
    return KubeletPreemption(tuple(each.uid for each in (*first, *middle, *last)))


def _without(missing: Mapping[str, int], pods: Iterable[_Holding]) -> dict[str, int]:
    """What is still missing when these pods are gone."""
    left = dict(missing)
    for pod in pods:
        for name in (PODS, *pod.requests):
            if name in left:
                left[name] -= pod.of(name)
    return {name: amount for name, amount in left.items() if amount > 0}


def _closest(pods: list[_Holding], missing: dict[str, int]) -> list[_Holding]:
    """Pods that cover `missing`, chosen one by one: the one that leaves the least, of equals the smaller."""
    chosen: list[_Holding] = []
    remaining = list(pods)

    def distance(each: _Holding) -> tuple[float, int, int]:
        shares = (max(amount - each.of(name), 0) / amount for name, amount in missing.items())
        return sum(share**2 for share in shares), each.of(MEMORY), each.of(CPU)

    while missing and remaining:
        best = min(remaining, key=distance)
        remaining.remove(best)
        chosen.append(best)
        missing = _without(missing, [best])
    return chosen
