"""Which workload `fit` is about: one that is there, or a template that stands in a file and belongs to no cluster.

A template file holds one workload, or one pod; claims beside a pod are its own, and every replica has them anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from tonnage.errors import TonnageError
from tonnage.objects.core_v1 import Node, PersistentVolumeClaim, Pod
from tonnage.objects.meta import Object
from tonnage.whatif.creation import Creation
from tonnage.whatif.expansion import Replica, WorkloadExpander
from tonnage.whatif.manifest_text import Source
from tonnage.whatif.sources import ClusterState, from_files
from tonnage.whatif.workloads import Workload, find_workload, is_workload, workload_name

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class FitQuestion:
    """What is to be counted: its name, what is made before the first replica, replicas without end, and how many
    of them it asks for by itself.
    """

    name: str
    made: tuple[Object, ...]
    replicas: Iterator[Replica]
    wanted: int


def asked_workload(state: ClusterState, creation: Creation, text: str, namespace: str) -> FitQuestion:
    """A workload of the cluster or of the files laid over it. Raises TonnageError."""
    found = find_workload(workload_name(text, namespace), (*state.objects, *state.workloads), state.source)
    return _expanded(state, creation, found)


def asked_template(state: ClusterState, creation: Creation, file: Source) -> FitQuestion:
    """The one workload or pod of a file. Raises TonnageError when there is none, or more than one."""
    template = from_files([file], creation, with_workloads=True)
    known = [*template.objects, *template.workloads]
    workloads = [each for each in known if is_workload(each)]
    pods = [each for each in known if isinstance(each, Pod)]
    if len(workloads) + len(pods) != 1:
        raise TonnageError(
            f"{file}: holds {len(workloads)} workloads and {len(pods)} pods, and a template is one of either",
            hint="put the others into files of their own, and give them with -f",
        )
    if pods:
        claims = [each for each in known if isinstance(each, PersistentVolumeClaim)]
        return FitQuestion(f"Pod {pods[0].key}", (), _pods(pods[0], claims), 1)
    others = [each for each in template.objects if not is_workload(each)]
    beside = ClusterState([*state.objects, *others], state.source, state.clock, origins=template.origins)
    asked = _expanded(beside, creation, workloads[0])  # type: ignore[arg-type]  # is_workload has looked
    return FitQuestion(asked.name, (*others, *asked.made), asked.replicas, asked.wanted)


def node_template(creation: Creation, file: Path) -> Sequence[Object]:
    """The Node of a file, with the CSINode and the capacity objects that stand beside it. Raises TonnageError."""
    found = from_files([str(file)], creation)
    nodes = [each for each in found.objects if isinstance(each, Node)]
    if len(nodes) != 1:
        raise TonnageError(f"{file}: holds {len(nodes)} Nodes, and a node template is one", hint="leave one in it")
    return found.objects


def _expanded(state: ClusterState, creation: Creation, workload: Workload) -> FitQuestion:
    expander = WorkloadExpander(state, creation, [])
    made, replicas = expander.more(workload)
    name = f"{type(workload).__name__} {workload.key}"
    return FitQuestion(name, made, replicas, expander.missing(workload))


def _pods(pod: Pod, claims: Sequence[PersistentVolumeClaim]) -> Iterator[Replica]:
    """Copies of a pod, each with copies of the claims that stand beside it."""
    replace = msgspec.structs.replace
    own = {each.name: each for each in claims if each.namespace == pod.namespace and each.name in pod.claim_names()}
    for number in count(1):
        made = {name: _numbered(claim, number) for name, claim in own.items()}
        volumes = tuple(
            replace(each, persistent_volume_claim=replace(source, claim_name=made[source.claim_name].name))
            if (source := each.persistent_volume_claim) is not None and source.claim_name in made
            else each
            for each in pod.spec.volumes
        )
        metadata = _numbered(pod, number).metadata
        spec = replace(pod.spec, volumes=volumes, node_name="")
        yield Replica(replace(pod, metadata=metadata, spec=spec), tuple(made.values()))


def _numbered(found: T, number: int) -> T:
    name = f"{found.name}-{number}"
    metadata = msgspec.structs.replace(
        found.metadata, name=name, uid=f"{found.uid}/{number}", resource_version="", creation_timestamp=None
    )
    return msgspec.structs.replace(found, metadata=metadata)
