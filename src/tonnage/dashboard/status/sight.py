"""What the rules see of a cluster, and what they say: a `Trouble`.

Commands only look: copying one never changes the cluster. They name objects by flags that kubectl and tonnage take, and
quote names for a shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tonnage.dashboard.model.known_objects import KnownObjects, Refusal
from tonnage.dashboard.wire import Collections, Row
from tonnage.objects.meta import Key
from tonnage.objects.small_groups import Lease
from tonnage.whatif.doctor.facts import Severity

KINDS: Final = {
    "api-server-away": (Severity.ERROR, "The API server does not answer"),
    "node-not-ready": (Severity.ERROR, "{} is not ready"),
    "scheduler-silent": (Severity.ERROR, "Scheduler {} is not running"),
    "driver-silent": (Severity.ERROR, "Driver {} does not answer"),
    "provisioner-silent": (Severity.ERROR, "{who} is not running"),
    "capacity-missing": (Severity.ERROR, "Class {} has no capacity object"),
    "volume-left-behind": (Severity.ERROR, "Volume {} is out of reach"),
    "claim-lost": (Severity.ERROR, "{} has lost its volume"),
    "volume-refused": (Severity.ERROR, "The volume of {} is refused{where}"),
    "pod-half-made": (Severity.ERROR, "{} has only some of its volumes"),
    "pod-not-starting": (Severity.ERROR, "{} does not start on {node}"),
    "pod-terminating": (Severity.ERROR, "{} does not end"),
    "pods-pending": (Severity.ERROR, "{}{others} pending"),
    "scheduler-not-asked": (Severity.WARNING, "The scheduler does not answer"),
    "lease-not-renewed": (Severity.WARNING, "{who} is not running"),
    "driver-unregistered": (Severity.WARNING, "Driver {} is on no node"),
    "figures-stale": (Severity.WARNING, "Figures of class {}{where} may be wrong"),
    "class-nearly-full": (Severity.WARNING, "Class {} is nearly full"),
    "capacity-missing-on-node": (Severity.WARNING, "Class {} has no capacity on some nodes"),
    "rebuild-stuck": (Severity.WARNING, "The volume of {} does not arrive"),
    "volume-slow": (Severity.WARNING, "{what}"),
    "volume-not-deleted": (Severity.WARNING, "{what} {} is not deleted"),
    "attach-refused": (Severity.WARNING, "Attachment {} is refused"),
    "attach-limit-exceeded": (Severity.WARNING, "{} has more volumes attached than it allows"),
    "selected-node-gone": (Severity.WARNING, "The volume of {} is to be made on a node that is gone"),
    "claim-of-missing-class": (Severity.WARNING, "Claim {} asks for a class that does not exist"),
    "node-cordoned": (Severity.INFO, "{} is cordoned"),
}
"""Every kind of trouble, worst first, with its severity and its headline, in which {} is the object's key. Names that
`doctor` has too mean the same there."""

_COMMANDS: Final = {
    "api-server-away": "kubectl get --raw /readyz",
    "scheduler-not-asked": "kubectl get leases -A",
    "scheduler-silent": "kubectl get leases -A",
    "driver-silent": "kubectl get events -A --field-selector reason=ProvisioningFailed",
    "class-nearly-full": "kubectl get csistoragecapacities -A",
}
"""Commands of kinds for which describing the object says little."""

_PLURALS: Final = {
    "Node": "node",
    "Pod": "pod",
    "PersistentVolumeClaim": "pvc",
    "PersistentVolume": "pv",
    "StorageClass": "storageclass",
    "CSIDriver": "csidriver",
    "CSINode": "csinode",
    "CSIStorageCapacity": "csistoragecapacity",
    "VolumeAttachment": "volumeattachment",
    "Lease": "lease",
}


class Trouble(Row):
    """One thing that is wrong."""

    severity: str
    """error (something does not run, or data is out of reach), warning (it soon may), info."""
    kind: str
    object: str
    """Kind and key: `Node node-2`, `Pod shop/db-0`. The first of several: `count` says how many they are."""
    headline: str
    meaning: str
    command: str
    """The next command: it looks, and changes nothing."""
    since: datetime | None = None
    """Since when, as the objects say; absent if they do not."""
    count: int = 1

    @property
    def key(self) -> str:
        return f"{self.kind} {self.object}"


@dataclass(frozen=True)
class Sight:
    """A cluster as the rules see it at one moment."""

    objects: KnownObjects
    rows: Collections
    now: datetime
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """By a claim's uid."""
    leases: Sequence[Lease] | None = None
    """None if they cannot be read."""
    running: Collection[str] = ()
    """Names that a scheduler says it serves."""
    unlisted: Mapping[str, str] = field(default_factory=dict)
    """Kinds that cannot be read, and why."""

    def refusal_of(self, claim: Key) -> Refusal | None:
        found = self.objects.claims.get(claim)
        return self.refusals.get(found.uid) if found is not None else None

    def is_over(self, since: datetime | None, seconds: float) -> bool:
        """True if an instant is longer ago than this."""
        return since is not None and (self.now - since).total_seconds() > seconds


def trouble(
    name: str,
    kind: str,
    key: Key,
    meaning: str,
    *,
    command: str = "",
    since: datetime | None = None,
    count: int = 1,
    **words: str,
) -> Trouble:
    """A trouble of `KINDS` with an object of this kind; `words` are those of its headline. By default the command
    describes the object."""
    severity, headline = KINDS[name]
    return Trouble(
        severity=severity.value,
        kind=name,
        object=f"{kind} {key}",
        headline=headline.format(key, **words),
        meaning=meaning,
        command=command or _COMMANDS.get(name) or describe(kind, key),
        since=datetime.fromtimestamp(since.timestamp(), UTC) if since is not None else None,  # never a MicroTime
        count=count,
    )


def describe(kind: str, key: Key) -> str:
    """`kubectl describe pvc -n shop data`."""
    namespace, _, name = key.rpartition("/")
    where = f" -n {shlex.quote(namespace)}" if namespace else ""
    return f"kubectl describe {_PLURALS[kind]}{where} {shlex.quote(name)}"


def explain(pod: Key) -> str:
    return f"tonnage explain --pod {shlex.quote(pod)}"


def capital(sentence: str, *, at_start: bool = True) -> str:
    """A sentence that begins with a capital letter, if it stands at the start, and ends with a full stop."""
    told = sentence.strip()
    if not told:
        return ""
    is_word = told.split()[0].isalpha()  # a name, such as csi.example, stays as it is
    return f"{told[0].upper() if at_start and is_word else told[0]}{told[1:]}{'' if told[-1] in '.!?' else '.'}"
