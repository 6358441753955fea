"""Templates expanded to pods and claims, as their controllers would make them, for pods that do not exist yet.

    StatefulSet ─────────────────────────────► db-0 with data-db-0, db-1 with data-db-1, …
    Deployment ──► ReplicaSet web-6fc8d ─────► web-6fc8d-x7k2p, …                ephemeral volumes: one claim each
    DaemonSet ───────────────────────────────► one for each node that will have it
    CronJob ──► Job nightly-29384 ───────────► as many as run at once

What comes out went through what a creation does (`creation`), so that a template that a server would refuse is refused
here, with its place. Names that a server would draw are drawn from a seed: the same input gives the same names.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Final, TypeVar

from tonnage.behaviour.workloads import daemon_set_plan, pod_states, rollout
from tonnage.behaviour.workloads.job_pods import job_of, job_pod
from tonnage.behaviour.workloads.stateful_set_plan import claims_for, pod_for
from tonnage.behaviour.workloads.templates import claim_for, pod_from_template, template_hash
from tonnage.objects.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from tonnage.objects.batch_v1 import CronJob, Job
from tonnage.objects.codec import resource_of
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod, ReplicationController
from tonnage.objects.document import Doc
from tonnage.objects.meta import Object
from tonnage.whatif.creation import Creation, QuotaExceeded, stable_uid
from tonnage.whatif.manifest_errors import Origin
from tonnage.whatif.sources import ClusterState
from tonnage.whatif.workloads import Workload, pods_of


@dataclass(frozen=True, slots=True)
class Replica:
    """One pod that would be made, and the claims that would be made with it; those that are there already are not."""

    pod: Pod
    claims: tuple[PersistentVolumeClaim, ...]


def uid_of(kind: str, namespace: str, name: str) -> str:
    return stable_uid(f"expansion/{kind} {namespace}/{name}")


T = TypeVar("T", bound=Object)
_SEED: Final = "expansion"
MOST_EXPANDED: Final = 1_000
"""Pods of one workload that are explained one by one; nobody reads more, and each is told node by node."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a workload still asks for."""

    workload: Workload
    made: tuple[Object, ...]
    """What its controller makes before the first pod: the ReplicaSet of a Deployment, the Job of a CronJob."""
    present: tuple[Pod, ...]
    """The pods that it has, in their order; those that have ended are not among them."""
    missing: tuple[Replica, ...]
    """The pods that it asks for and has not, `MOST_EXPANDED` at most."""


class WorkloadExpander:
    """Makes pods of the workloads of one cluster; warnings about what it made are added to `warnings`."""

    def __init__(self, state: ClusterState, creation: Creation, warnings: list[str]) -> None:
        self._state = state
        self._creation = creation
        self._warnings = warnings
        self._rng = random.Random(_SEED)
        self._claims = set(state.by_kind.of(PersistentVolumeClaim))
        self._names = set(state.pods)

    def expand(self, workload: Workload) -> Expansion:
        """The pods that a workload has, and the first that its controller would still make. Raises BrokenManifest."""
        owner, made = self._owner(workload)
        present = self._present(workload)
        missing, name = self.missing(workload), f"{resource_of(type(workload)).kind} {workload.key}"
        if missing > MOST_EXPANDED:
            told = f"{name} asks for {missing:,} more pods, of which the first {MOST_EXPANDED:,} are explained"
            self._warnings.append(f"{told}; tonnage fit counts how many fit")
        replicas: list[Replica] = []
        try:
            replicas.extend(islice(self._replicas(owner, present), min(missing, MOST_EXPANDED)))
        except QuotaExceeded as exc:
            self._warnings.append(f"{name}: no further pod is made: {exc.message}")
        return Expansion(workload, made, present, tuple(replicas))

    def more(self, workload: Workload) -> tuple[tuple[Object, ...], Iterator[Replica]]:
        """What is made first, and pods beyond those that are there, without end; of a DaemonSet one for each node. The
        pods raise QuotaExceeded where no further one can be made."""
        owner, made = self._owner(workload)
        return made, self._replicas(owner, self._present(workload))

    def missing(self, workload: Workload) -> int:
        return max(0, self.wanted(workload) - len(self._present(workload)))

    def wanted(self, workload: Workload) -> int:
        if isinstance(workload, DaemonSet):
            return len(self._daemon_nodes(workload))
        if isinstance(workload, CronJob):
            job = self._owner(workload)[0]
            return job.pods_at_once if isinstance(job, Job) else 0
        return workload.pods_at_once if isinstance(workload, Job) else workload.spec.replicas

    # -- owners -------------------------------------------------------------------------------------------------------

    def _owner(self, workload: Workload) -> tuple[Workload, tuple[Object, ...]]:
        """Whoever makes the pods themselves, and what has to be made for that."""
        if isinstance(workload, CronJob):
            job = self._typed(Job, job_of(workload, self._state.clock.now()), workload, self._warnings)
            return job, (job,)
        if not isinstance(workload, Deployment):
            return workload, ()
        doc = rollout.replica_set_for(workload, workload.spec.replicas)
        name = f"{workload.namespace}/{doc['metadata']['name']}"
        for each in self._state.by_kind.all(ReplicaSet):
            if each.key == name or _is_of(each, workload):
                return each, ()
        made = self._typed(ReplicaSet, doc, workload, self._warnings)
        return made, (made,)

    def _present(self, workload: Workload) -> tuple[Pod, ...]:
        found = pods_of(workload, (*self._state.objects, *self._state.workloads))
        return tuple(pod for pod in found if not pod.is_terminal)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _replicas(self, owner: Workload, present: tuple[Pod, ...]) -> Iterator[Replica]:
        warnings, valid_lengths = self._warnings, set[int]()
        for doc, claim_docs in self._docs(owner, present):
            # What is wrong with one replica is wrong with all, but for names that are too long.
            length = len(self._named(doc))
            whole = self._created(owner, doc, claim_docs, warnings, is_valid=length in valid_lengths)
            warnings = []
            valid_lengths.add(length)
            claims = tuple(claim for claim in whole.claims if claim.key not in self._claims)
            self._claims.update(claim.key for claim in claims)
            for each in (whole.pod, *claims):
                self._creation.charge(each)
            yield Replica(whole.pod, claims)

    def _docs(self, owner: Workload, present: tuple[Pod, ...]) -> Iterator[tuple[Doc, list[Doc]]]:
        """Pods one after the other, each with the claims of the owner's own templates."""
        if isinstance(owner, StatefulSet):
            taken = {pod_states.ordinal_of(pod.name) for pod in present}
            revision = f"{owner.name}-{template_hash(owner.spec.template)}"
            for ordinal in count(owner.spec.ordinals.start):
                if ordinal not in taken:
                    yield pod_for(owner, owner.spec.template, ordinal, revision), claims_for(owner, ordinal)
        elif isinstance(owner, DaemonSet):
            served = {daemon_set_plan.target_node(pod) for pod in present}
            for node in self._daemon_nodes(owner):
                if node not in served:
                    yield self._daemon(owner, node), []
        elif isinstance(owner, Job):
            for index in count(len(present)):
                yield job_pod(owner, index), []
        elif isinstance(owner, ReplicaSet | ReplicationController):
            while True:
                yield pod_from_template(owner.spec.template, owner), []

    def _daemon(self, owner: DaemonSet, node: str) -> Doc:
        return daemon_set_plan.daemon_pod(owner, node, template_hash(owner.spec.template))

    def for_node(self, owner: DaemonSet, node: Node) -> Replica | None:
        """The pod of a DaemonSet for a node that joins; None when it is to have none."""
        if not daemon_set_plan.NodeEligibility.of(owner).should_run(node):
            return None
        return self._created(owner, self._daemon(owner, node.name), [], self._warnings)

    def _daemon_nodes(self, owner: DaemonSet) -> list[str]:
        eligibility = daemon_set_plan.NodeEligibility.of(owner)
        return sorted(node.name for node in self._state.by_kind.all(Node) if eligibility.should_run(node))

    def _free_name(self, metadata: Doc) -> str:
        while True:
            name = pod_states.generated_name(metadata["generateName"], self._rng)
            if f"{metadata['namespace']}/{name}" not in self._names:
                return name

    def _named(self, doc: Doc) -> str:
        """The name of a pod, which it gets here if it has none."""
        metadata = doc["metadata"]
        name: str = metadata.get("name") or self._free_name(metadata)
        metadata["name"] = name
        return name

    def _created(
        self, owner: Workload, doc: Doc, claim_docs: list[Doc], warnings: list[str], *, is_valid: bool = False
    ) -> Replica:
        """A replica as a server would keep it, with all of its claims. `is_valid`: one like it has been validated."""
        self._names.add(f"{owner.namespace}/{self._named(doc)}")
        pod = self._typed(Pod, doc, owner, warnings, is_valid=is_valid)
        ephemeral = [claim_for(pod, volume) for volume in pod.spec.volumes if volume.ephemeral is not None]
        docs = (*claim_docs, *ephemeral)
        claims = (self._typed(PersistentVolumeClaim, each, owner, warnings, is_valid=is_valid) for each in docs)
        return Replica(pod, tuple(claims))

    def _typed(self, cls: type[T], doc: Doc, owner: Workload, warnings: list[str], *, is_valid: bool = False) -> T:
        """A document as a server would keep it, with a uid that is the same at every run."""
        resource, metadata = resource_of(cls), doc["metadata"]
        place = f"{resource.kind} {metadata['namespace']}/{metadata['name']}"
        metadata["uid"] = uid_of(resource.kind, metadata["namespace"], metadata["name"])
        source = self._state.origins.get((type(owner).__name__, owner.key)) or Origin(self._state.source, 0)
        origin = Origin(source.file, source.document, source.item, f"{place} of {type(owner).__name__} {owner.key}")
        return self._creation.made(cls, origin, doc, warnings, is_valid=is_valid)


def _is_of(found: ReplicaSet, deployment: Deployment) -> bool:
    """Whether a set that is there holds the Deployment's present template, made by whichever controller."""
    owned = any(owner.controller and owner.uid == deployment.uid for owner in found.metadata.owner_references)
    newest = found.metadata.annotations.get("deployment.kubernetes.io/revision")
    return owned and bool(newest) and newest == deployment.metadata.annotations.get("deployment.kubernetes.io/revision")
