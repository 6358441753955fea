"""Annotations, labels, finalizers and other names under tonnage.dev.

The table is kept here by hand, because what a name is for is told to people; that it is complete is checked:
tests/test_reference_current.py reads every literal of the package with tonnage.dev in it.
"""

from __future__ import annotations

from typing import NamedTuple

from reference import code, table


class Name(NamedTuple):
    """One name, and what people have to know of it."""

    name: str
    on: str
    written_by: str
    means: str


ANNOTATIONS = [
    Name(
        "tonnage.dev/available-capacities",
        "CSIStorageCapacity",
        "`tonnage provisioner`, `tonnage pools`, drivers of others",
        "its pools, `100Gi,100Gi`, where the server drops `availableCapacities`",
    ),
    Name(
        "tonnage.dev/included-claims",
        "CSIStorageCapacity",
        "`tonnage provisioner`",
        "uids of claims whose volumes, made lately, its figures are known to include; mode Ledger lets go of these at once",
    ),
    Name(
        "tonnage.dev/included-until",
        "CSIStorageCapacity",
        "`tonnage provisioner`",
        "beside it, where those claims are more than 64: its figures include every volume whose PersistentVolume was "
        "created before this, by the server's clock",
    ),
    Name(
        "tonnage.dev/provisioning-refused",
        "PersistentVolumeClaim",
        "`tonnage provisioner`",
        "why its volume cannot be made, and on which node, where no room would help; no room is kept back for it meanwhile",
    ),
    Name(
        "tonnage.dev/run-seconds",
        "Pod of a Job",
        "people, in the Job's pod template",
        "how long its containers run on a node of `tonnage up`, where nothing runs; without it one second",
    ),
    Name(
        "tonnage.dev/exit-code",
        "Pod of a Job",
        "people, in the Job's pod template",
        "how they end, 0 to 255; without it 0, and the pod has succeeded",
    ),
    Name(
        "tonnage.dev/pools-source",
        "CSIStorageCapacity",
        "`tonnage pools`",
        "where the pools are read from; `capacity` is then kept by another and may be older or newer",
    ),
    Name(
        "tonnage.dev/pools-observed-at",
        "CSIStorageCapacity",
        "`tonnage pools`",
        "when the source reported the pools, by the server's clock",
    ),
    Name(
        "tonnage.dev/pools-checked-at",
        "CSIStorageCapacity",
        "`tonnage pools`",
        "when it was last seen that the source says the same still",
    ),
    Name(
        "tonnage.dev/pools-stale-since",
        "CSIStorageCapacity",
        "`tonnage pools`",
        "the source has been silent since; the pools are going to be taken away",
    ),
    Name(
        "tonnage.dev/capacity-group",
        "StorageClass",
        "an admin",
        "classes of one driver with the same value draw from the same pools ([why](../decisions/010-capacity-groups.md))",
    ),
    Name(
        "tonnage.dev/pool-policy",
        "CSIDriver, StorageClass (goes before it)",
        "an admin",
        "which pool the driver takes: `most-free`, `best-fit`, `first-fit`, `random`, `unknown` ([why](../decisions/020-how-a-driver-picks-pools.md))",
    ),
    Name(
        "tonnage.dev/size-rules",
        "StorageClass",
        "an admin, `tonnage pools`",
        "which sizes the driver makes: `step=1Mi,step=1Gi,above=1Gi`, `minimum=`, `block-minimum=`, `overhead=`, `extent=`, `strict` ([how](../concepts/pools.md))",
    ),
    Name(
        "tonnage.dev/free-volumes",
        "CSIStorageCapacity",
        "`tonnage pools`",
        "how many volumes can still be made from the object, whatever their sizes: a whole number; without it any number",
    ),
    Name(
        "tonnage.dev/pool-ids",
        "CSIStorageCapacity",
        "`tonnage pools`; `tonnage provisioner` if the driver tells ids",
        "an id for each pool, in their order: pools of one id, driver and topology are one pool ([why](../decisions/010-capacity-groups.md))",
    ),
    Name(
        "tonnage.dev/check-capacity",
        "StorageClass",
        "`tonnage pools --create-objects`, an admin",
        "`true`: its capacity objects count although its CSIDriver says `storageCapacity: false`, or does not exist",
    ),
    Name(
        "tonnage.dev/volume-copies",
        "StorageClass",
        "`tonnage pools`, an admin",
        "on how many nodes a volume takes its size; `explain`, `fit` and `doctor` say so",
    ),
    Name(
        "tonnage.dev/volume-rebuilding",
        "CSIDriver",
        "an admin, a driver",
        '`"true"`: the driver rebuilds volumes elsewhere, where the server drops `volumeRebuilding`',
    ),
    Name(
        "tonnage.dev/rebuild-target",
        "PersistentVolumeClaim",
        "`tonnage scheduler`",
        "its volume is to be rebuilt on this node; means something while it equals the selected node and the volume's node affinity is unset, and is never taken off ([why](../decisions/011-volumes-on-their-way.md))",
    ),
    Name(
        "tonnage.dev/volume-home",
        "PersistentVolume",
        "a driver that rebuilds volumes: the reference driver, yours",
        "the node that has its contents; written in the patch that unsets the node affinity, and means something only while that is unset ([why](../decisions/011-volumes-on-their-way.md))",
    ),
    Name(
        "tonnage.dev/right",
        "Role, ClusterRole and their bindings",
        "the shipped role files",
        "`advised: …`: the role can be left out, and what is lost without it",
    ),
]
LABELS = [
    Name(
        "topology.tonnage.dev/node",
        "Node, CSINode topology, node affinity of volumes",
        "`tonnage node`, from the reference driver",
        "the reference driver's one topology key; its value is the node's id",
    ),
    Name("tonnage.dev/node-pool", "Node", "`tonnage node-scaler`", "the pool of nodes that it was made for"),
]
FINALIZERS = [
    Name(
        "provisioner.tonnage.dev/volume-protection",
        "PersistentVolumeClaim",
        "`tonnage provisioner`",
        "the claim is kept while its volume is made, so that a volume never has no claim to ask about",
    ),
]
OTHERS = [
    Name("pools.tonnage.dev", "CSIDriver", "`tonnage up`", "the reference driver's name"),
    Name(
        "tonnage.dev/v1alpha1",
        "files",
        "you",
        "`apiVersion` of StorageCapacityArgs, of scenarios (`tonnage simulate`) and of templates (`tonnage node-scaler`)",
    ),
]
KUBERNETES = [
    Name(
        "volume.kubernetes.io/selected-node",
        "PersistentVolumeClaim",
        "the scheduler",
        "where its volume shall be made; the provisioner takes it back when there is no room",
    ),
    Name(
        "volume.kubernetes.io/storage-provisioner",
        "PersistentVolumeClaim",
        "the PV controller",
        "the driver that shall make its volume",
    ),
    Name(
        "pv.kubernetes.io/provisioned-by",
        "PersistentVolume",
        "the provisioner",
        "the driver that made it and shall delete it",
    ),
    Name(
        "pv.kubernetes.io/bind-completed",
        "PersistentVolumeClaim",
        "the scheduler, the PV controller",
        "the binding is done",
    ),
    Name(
        "pv.kubernetes.io/bound-by-controller",
        "both",
        "the scheduler, the PV controller",
        "the binding was not asked for by a person, and may be undone",
    ),
    Name(
        "ToBeDeletedByClusterAutoscaler",
        "Node (taint)",
        "`tonnage node-scaler`",
        "it is about to be removed; the cluster autoscaler's name, because others look for it",
    ),
]
OURS = [*ANNOTATIONS, *LABELS, *FINALIZERS, *OTHERS]

HEAD = """\
# Annotations, labels, finalizers

What a person or another program may rely on. A test reads every name under `tonnage.dev` off the source and compares.

"""


def page() -> str:
    sections = {
        "Annotations": ANNOTATIONS,
        "Labels": LABELS,
        "Finalizers": FINALIZERS,
        "Other names": OTHERS,
        "Names of Kubernetes that decisions rest on": KUBERNETES,
    }
    return HEAD + "\n\n".join(f"## {title}\n\n{_listed(names)}" for title, names in sections.items())


def _listed(names: list[Name]) -> str:
    rows: list[tuple[object, ...]] = [(code(each.name), each.on, each.written_by, each.means) for each in names]
    return table(("name", "on", "written by", "what it means"), rows)
