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

from tonnage.dashboard.model.known_objects import KnownObjects
from tonnage.dashboard.model.refusals import Refusal
from tonnage.dashboard.wire import Collections, Row
from tonnage.objects.meta import Key
from tonnage.objects.small_groups import Lease
from tonnage.whatif.doctor.facts import Severity

_NAMES: Final = {
    Severity.ERROR: """
        api-server-away node-not-ready scheduler-silent driver-silent provisioner-silent capacity-missing
        volume-left-behind claim-lost volume-refused pod-half-made pod-not-starting pod-terminating pods-pending
    """,
    Severity.WARNING: """
        scheduler-not-asked lease-not-renewed driver-unregistered figures-stale class-nearly-full
        capacity-missing-on-node rebuild-stuck volume-slow volume-not-deleted attach-refused attach-limit-exceeded
        selected-node-gone claim-of-missing-class
    """,
    Severity.INFO: "node-cordoned",
}
KINDS: Final = {name: severity for severity, names in _NAMES.items() for name in names.split()}
"""Every kind of trouble, worst first, with its severity. Names that `doctor` has too mean the same there."""

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

    def is_over(self, since: datetime | None, seconds: float) -> bool:
        """True if an instant is longer ago than this."""
        return since is not None and (self.now - since).total_seconds() > seconds


def trouble(
    kind: str,
    about: str,
    headline: str,
    meaning: str,
    command: str,
    *,
    since: datetime | None = None,
    count: int = 1,
) -> Trouble:
    """A trouble of a kind of `KINDS`."""
    severity = KINDS[kind]
    return Trouble(
        severity=severity.value,
        kind=kind,
        object=about,
        headline=headline,
        meaning=meaning,
        command=command,
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
