"""Events and conditions: every reason, who writes it, on what, when.

The tables are kept here by hand, because when something is told is for people to read; that they are complete is
checked: tests/test_reference_current.py reads every call of a recorder in the package.
"""

from __future__ import annotations

from typing import NamedTuple

from reference import code, table

HEAD = """\
# Events and conditions

What programs tell about objects, for `kubectl describe` and `kubectl get events`. Reasons are Kubernetes' own wherever it
has them, and so are the sentences that people search for. Events that say the same about the same object are counted
in one, and of an object about which there is no end of news few are written; what was left out is counted in
`tonnage_events_dropped_total` ([metrics](metrics.md)).

A pod that waits for capacity that is kept back for others says whose it is. The sentence follows the reasons that
Kubernetes counts, stays the same while the reservation lasts (it tells when that began, in UTC), and of several holders
names the oldest:

```
0/14 nodes are available: 14 node(s) did not have enough free storage. On 2 of 14 nodes the room is reserved
for shop/db-1 (since 12:03:05Z) and 2 more. preemption: 0/14 nodes are available: 14 Preemption is not helpful for
scheduling.
```

`tonnage explain` says the same, and for each node what is missing there.
"""


class Event(NamedTuple):
    """One reason, on one kind of object, by one program."""

    reason: str
    type: str
    on: str
    by: str
    when: str


_CLAIM, _VOLUME, _POD, _NODE = "PersistentVolumeClaim", "PersistentVolume", "Pod", "Node"
_OWNERS = "ReplicaSet, StatefulSet, DaemonSet, …"

EVENTS = [
    Event("Scheduled", "Normal", _POD, "scheduler", "it was bound to a node"),
    Event("FailedScheduling", "Warning", _POD, "scheduler", "no node takes it, or its binding failed; the note says why"),
    Event("Preempted", "Normal", _POD, "scheduler", "it has to go for a pod of higher priority"),
    Event(
        "CapacityAwareRescheduling",
        "Normal",
        _CLAIM,
        "scheduler",
        "its volume has to be rebuilt on another node, because its own is cordoned or gone (KEP-5925); once a claim and node",
    ),
    Event("Provisioning", "Normal", _CLAIM, "provisioner", "the driver is being asked for its volume"),
    Event("ProvisioningSucceeded", "Normal", _CLAIM, "provisioner", "its volume was made"),
    Event(
        "ProvisioningFailed",
        "Warning",
        _CLAIM,
        "provisioner, controllers",
        "its volume could not be made; with ResourceExhausted the pod is sent elsewhere",
    ),
    Event(
        "ProvisioningCleanupFailed",
        "Warning",
        _CLAIM,
        "provisioner",
        "its volume cannot be stored and could not be deleted again; both are tried again",
    ),
    Event(
        "VolumeProvisioningStuck",
        "Warning",
        _POD,
        "provisioner",
        "claims of the pod were made on a node that has no room for the others: it cannot go anywhere else",
    ),
    Event("VolumeFailedDelete", "Warning", _VOLUME, "provisioner, controllers", "the driver did not delete it; it is asked again"),
    Event("VolumeFailedRecycle", "Warning", _VOLUME, "controllers", "its reclaim policy is Recycle, which nobody does"),
    Event("VolumeUnknownReclaimPolicy", "Warning", _VOLUME, "controllers", "its reclaim policy is none that is known"),
    Event("Resizing", "Normal", _CLAIM, "provisioner", "the driver is being asked to expand its volume"),
    Event("FileSystemResizeRequired", "Normal", _CLAIM, "provisioner", "the volume has grown, its file system has not yet"),
    Event("VolumeResizeSuccessful", "Normal", _CLAIM, "provisioner", "its volume has grown"),
    Event("VolumeResizeFailed", "Warning", f"{_CLAIM}, {_POD}", "provisioner, node", "its volume could not be expanded"),
    Event("FileSystemResizeSuccessful", "Normal", f"{_CLAIM}, {_POD}", "node", "the file system has grown"),
    Event("WaitForFirstConsumer", "Normal", _CLAIM, "controllers", "its volume is made once a pod needs it"),
    Event("WaitForPodScheduled", "Normal", _CLAIM, "controllers", "pods use it and none of them has a node yet"),
    Event("ExternalProvisioning", "Normal", _CLAIM, "controllers", "somebody else is to make its volume"),
    Event("FailedBinding", "Normal or Warning", f"{_CLAIM}, {_POD}", "controllers", "no volume fits it, or the one it names is taken; a claim of the pod's name is another's"),
    Event("VolumeMismatch", "Warning", f"{_CLAIM}, {_VOLUME}", "controllers", "the volume it names does not fit: too small, or of another mode or class"),
    Event("ClaimLost", "Warning", _CLAIM, "controllers", "the volume it was bound to is gone"),
    Event("ClaimMisbound", "Warning", _CLAIM, "controllers", "two claims say that they are bound to one volume"),
    Event("SuccessfulAttachVolume", "Normal", _POD, "controllers", "a volume of it is attached to its node"),
    Event("FailedAttachVolume", "Warning", _POD, "controllers", "a volume of it cannot be attached; also: another node has it (Multi-Attach)"),
    Event("FailedMount", "Warning", _POD, "node", "a volume of it cannot be mounted"),
    Event("VolumeAttachmentLimitExceeded", "Warning", _POD, "node", "its node has no attach slot left; the pod is failed, so that its controller makes another (KEP-4876)"),
    Event("VolumeNodeAffinity", "Warning", _POD, "node", "its volume is confined to other nodes; the pod is failed"),
    Event("OutOfcpu", "Warning", _POD, "node", "its node has not enough CPU left for it; the pod is failed. The same for other resources: `OutOfmemory`, `OutOfpods`, …"),
    Event("NodeAffinity", "Warning", _POD, "node", "its node has not the labels that it asks for; the pod is failed"),
    Event("NodeName", "Warning", _POD, "node", "it names another node; the pod is failed"),
    Event("NodePorts", "Warning", _POD, "node", "another pod of its node has one of its host ports; the pod is failed"),
    Event("TaintToleration", "Warning", _POD, "node", "its node has a NoExecute taint that it does not tolerate; the pod is failed"),
    Event("PodOSNotSupported", "Warning", _POD, "node", "it is for another operating system than Linux; the pod is failed"),
    Event("PodOSSelectorNodeLabelDoesNotMatch", "Warning", _POD, "node", "its label `kubernetes.io/os` is not `linux`; the pod is failed"),
    Event("SysctlForbidden", "Warning", _POD, "node", "it asks for a sysctl that is not a safe one; the pod is failed"),
    Event("UnexpectedAdmissionError", "Warning", _POD, "node", "it is critical, and ending all other pods would not make room for it; the pod is failed"),
    Event("Preempting", "Warning", _POD, "node", "its node ended it to make room for a critical pod that names the node"),
    Event("Pulled", "Normal", _POD, "node", "its image is there (played: no image is fetched)"),
    Event("Created", "Normal", _POD, "node", "its container is made (played)"),
    Event("Started", "Normal", _POD, "node", "its container runs (played)"),
    Event("Killing", "Normal", _POD, "node", "it is being deleted"),
    Event("Starting", "Normal", _NODE, "node", "the node registered"),
    Event("NodeReady", "Normal", _NODE, "node", "the node is ready"),
    Event("NodeSchedulable", "Normal", _NODE, "node", "it was uncordoned"),
    Event("NodeNotSchedulable", "Normal", _NODE, "node", "it was cordoned"),
    Event("RegisteredNode", "Normal", _NODE, "controllers", "node lifecycle watches over it from now on"),
    Event("RemovingNode", "Normal", _NODE, "controllers", "it is gone"),
    Event("NodeNotReady", "Normal or Warning", f"{_NODE}, {_POD}", "controllers", "it has not renewed its lease in time; its pods are not ready"),
    Event("TaintManagerEviction", "Normal", _POD, "controllers", "it is deleted because of a taint, or no longer has to be"),
    Event("AffinityUnset", "Normal", f"{_VOLUME}, {_CLAIM}", "csi-driver", "its node is cordoned or gone, or its pod has another volume elsewhere: it may be rebuilt elsewhere (KEP-5925)"),
    Event("AffinitySet", "Normal", f"{_VOLUME}, {_CLAIM}", "csi-driver", "it is on a node again"),
    Event("AffinityImmutable", "Warning", f"{_VOLUME}, {_CLAIM}", "csi-driver", "the server does not let its node affinity change (KEP-5381): it cannot be rebuilt"),
    Event("VolumeRebuilt", "Normal", f"{_VOLUME}, {_CLAIM}", "csi-driver", "its contents are on the new node"),
    Event("TriggeredScaleUp", "Normal", _POD, "node-scaler", "a node is made for it"),
    Event("NotTriggerScaleUp", "Normal", _POD, "node-scaler", "a node would not help it"),
    Event("ScaleDown", "Normal", _NODE, "node-scaler", "nobody needs it: it is deleted"),
    Event("SuccessfulCreate", "Normal", _OWNERS, "controllers", "a pod or a claim was made for it"),
    Event("FailedCreate", "Warning", _OWNERS, "controllers", "a pod or a claim could not be made for it"),
    Event("SuccessfulDelete", "Normal", _OWNERS, "controllers", "a pod of it was deleted"),
    Event("FailedDelete", "Warning", _OWNERS, "controllers", "a pod of it could not be deleted"),
    Event("SuccessfulUpdate", "Normal", "StatefulSet", "controllers", "a pod of it was changed"),
    Event("FailedUpdate", "Warning", "StatefulSet", "controllers", "a pod of it could not be changed"),
    Event("ConflictingController", "Warning", "StatefulSet", "controllers", "a claim of its name belongs to another"),
    Event("FailedDaemonPod", "Warning", "DaemonSet", "controllers", "a pod of it failed and is made anew"),
    Event("SucceededDaemonPod", "Normal", "DaemonSet", "controllers", "a pod of it ended and is made anew"),
    Event("SelectingAll", "Warning", "Deployment, DaemonSet", "controllers", "its selector is empty; it does nothing"),
    Event("ScalingReplicaSet", "Normal", "Deployment", "controllers", "a ReplicaSet of it grows or shrinks"),
    Event("ReplicaSetCreateError", "Warning", "Deployment", "controllers", "no ReplicaSet could be made for it"),
    Event("MultiplePodDisruptionBudgets", "Warning", _POD, "controllers", "several budgets select it; one of them counts"),
    Event("NoPods", "Normal", "PodDisruptionBudget", "controllers", "it selects no pod"),
    Event("CalculateExpectedPodCountFailed", "Warning", "PodDisruptionBudget", "controllers", "how many pods there should be is not known"),
    Event("NotDeleted", "Warning", _POD, "controllers", "it was evicted and is still there"),
    Event("UnmanagedPods", "Warning", "PodDisruptionBudget", "controllers", "it selects pods that no controller has"),
    Event("VolumeModify", "Normal", _CLAIM, "provisioner", "the driver is being asked to give its volume the attributes of its class"),
    Event("VolumeModifySuccessful", "Normal", _CLAIM, "provisioner", "its volume has the attributes of its VolumeAttributesClass"),
    Event("VolumeModifyFailed", "Warning", _CLAIM, "provisioner", "its volume could not be given them"),
    Event("Completed", "Normal", "Job", "controllers", "it is done"),
    Event("Suspended", "Normal", "Job", "controllers", "it is suspended: its pods are deleted"),
    Event("Resumed", "Normal", "Job", "controllers", "it goes on"),
    Event("BackoffLimitExceeded", "Warning", "Job", "controllers", "too many of its pods failed"),
    Event("DeadlineExceeded", "Warning", "Job", "controllers", "it took longer than activeDeadlineSeconds"),
    Event("PodFailurePolicy", "Warning", "Job", "controllers", "its failure policy says that a failed pod fails it"),
    Event("FailedIndexes", "Warning", "Job", "controllers", "some of its indexes failed"),
    Event("MaxFailedIndexesExceeded", "Warning", "Job", "controllers", "too many of its indexes failed"),
    Event("JobAlreadyActive", "Normal", "CronJob", "controllers", "its last job still runs, and concurrencyPolicy is Forbid"),
    Event("SawCompletedJob", "Normal", "CronJob", "controllers", "a job of it ended"),
    Event("MissingJob", "Normal", "CronJob", "controllers", "a job of it is gone"),
    Event("UnexpectedJob", "Warning", "CronJob", "controllers", "a job says that it is its, and it did not make it"),
    Event("MissSchedule", "Warning", "CronJob", "controllers", "it was not looked at within startingDeadlineSeconds"),
    Event("TooManyMissedTimes", "Warning", "CronJob", "controllers", "it missed more than a hundred times"),
    Event("UnknownTimeZone", "Warning", "CronJob", "controllers", "its timeZone is none"),
    Event("UnparseableSchedule", "Warning", "CronJob", "controllers", "its schedule is none"),
    Event("OwnerRefInvalidNamespace", "Warning", "any", "controllers", "its owner is in another namespace, which cannot be"),
]  # fmt: skip

CONDITIONS = [
    ("PodScheduled", _POD, "scheduler", "False: `Unschedulable` (no node takes it), `SchedulerError` (something failed); the message is that of the event"),
    ("PodScheduled", _POD, "API server", "True at its binding; False with `SchedulingGated` while it has gates"),
    ("Ready, ContainersReady, Initialized, PodReadyToStartContainers", _POD, "node", "as kubelet has them"),
    ("Ready", _POD, "controllers", "False when its node is lost"),
    ("DisruptionTarget", _POD, "scheduler, API server, controllers", "it is about to go: `PreemptionByScheduler`, `EvictionByEvictionAPI`, `DeletionByTaintManager`"),
    ("Ready, MemoryPressure, DiskPressure, PIDPressure", _NODE, "node, controllers", "as kubelet has them; Unknown when it is lost"),
    ("Resizing, FileSystemResizePending", _CLAIM, "provisioner, node", "its volume is growing"),
    ("Available, Progressing, ReplicaFailure", "Deployment", "controllers", "as kube-controller-manager has them"),
    ("ReplicaFailure", "ReplicaSet", "controllers", "pods could not be made or deleted"),
    ("DisruptionAllowed", "PodDisruptionBudget", "controllers", "`SufficientPods`, `InsufficientPods` or `SyncFailed`"),
]  # fmt: skip

UNNAMED = {
    "client/recorder.py": frozenset[str](),
    "controllers/controller_context.py": frozenset[str](),
    # Hands on Notes, which are read where they are made.
    "controllers/volumes/persistent_volume_binder.py": frozenset[str](),
    "controllers/nodes/node_lifecycle.py": frozenset(("RegisteredNode", "RemovingNode", "NodeNotReady")),
    "controllers/workloads/jobs.py": frozenset(
        (
            "JobAlreadyActive",
            "SawCompletedJob",
            "MissingJob",
            "UnexpectedJob",
            "MissSchedule",
            "TooManyMissedTimes",
            "UnknownTimeZone",
            "UnparseableSchedule",
            "SuccessfulCreate",
            "FailedCreate",
            "SuccessfulDelete",
            "FailedDelete",
            "BackoffLimitExceeded",
            "DeadlineExceeded",
            "PodFailurePolicy",
            "FailedIndexes",
            "MaxFailedIndexesExceeded",
        )
    ),
    "controllers/workloads/revisioned_sets.py": frozenset(
        f"{how}{verb}" for how in ("Successful", "Failed") for verb in ("Create", "Update", "Delete")
    ),
    "behaviour/volumes/binding_plan.py": frozenset(
        ("VolumeMismatch", "VolumeUnknownReclaimPolicy", "VolumeFailedDelete", "VolumeFailedRecycle")
    ),
    "driver/rebuilding.py": frozenset(("AffinityUnset", "AffinitySet", "AffinityImmutable", "VolumeRebuilt")),
    "node/pods/worker.py": frozenset(
        (
            "VolumeAttachmentLimitExceeded",
            "VolumeNodeAffinity",
            "OutOfcpu",
            "NodeAffinity",
            "NodeName",
            "NodePorts",
            "TaintToleration",
            "PodOSNotSupported",
            "PodOSSelectorNodeLabelDoesNotMatch",
            "SysctlForbidden",
            "UnexpectedAdmissionError",
        )
    ),
    "node/registration.py": frozenset(("Starting", "NodeReady", "NodeSchedulable", "NodeNotSchedulable")),
    "nodescaler/program.py": frozenset(("TriggeredScaleUp", "NotTriggerScaleUp")),
    "scheduler/binding_cycle.py": frozenset(("CapacityAwareRescheduling",)),
    "scheduler/loop.py": frozenset(("CapacityAwareRescheduling",)),
}
"""By file with a call whose reason is worked out elsewhere: the reasons that come there."""


def page() -> str:
    rows: list[tuple[object, ...]] = [
        (code(each.reason), each.type, each.on, each.by, each.when) for each in sorted(EVENTS)
    ]
    told: list[tuple[object, ...]] = [(code(name), on, by, when) for name, on, by, when in CONDITIONS]
    events = table(("Reason", "Type", "About", "By", "When"), rows)
    conditions = table(("Condition", "Of", "By", "What it says"), told)
    return f"{HEAD}\n## Events\n\n{events}\n\n## Conditions\n\n{conditions}"
