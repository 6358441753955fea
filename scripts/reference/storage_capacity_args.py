"""StorageCapacityArgs: the settings that are ours."""

from __future__ import annotations

from reference import table
from reference.configuration import arguments
from tonnage.scheduling.configuration.plugin_args import LegacyPools, PoolFit, Reservation, StorageCapacityArgs

HEAD = """\
# StorageCapacityArgs

What is ours to choose stands in one entry of `pluginConfig`. There is no plugin of that name, so that kube-scheduler ignores
the entry and one file can serve both:

```yaml
pluginConfig:
- name: StorageCapacity
  args:
    apiVersion: {version}
    kind: StorageCapacityArgs
    reservation: {reservation}
    reservationTimeoutSeconds: {timeout}
    poolFit: {fit}
    legacyPools: {legacy}
```

These are the defaults. In three places they are not the letter of KEP-5925, because that was slower, turned pods away that
fit, and left pods with one volume made and no room for the other: `reservation: Object`, `legacyPools: Strict` and
`poolFit: Possible` are the letter ([why](../decisions/005-reservations.md)). Which to choose:
[choose a reservation mode](../guides/reservation-mode.md).

"""

CHOICES = {
    Reservation.OBJECT: "the whole capacity object is kept back until it is refreshed: one decision per refresh. The KEP",
    Reservation.LEDGER: "the bytes promised are kept back, claim by claim, until they are seen in the object",
    Reservation.NONE: "nothing is kept back; for clusters without capacity objects",
    PoolFit.PREFER: "a node where the volumes fit more surely (guaranteed, ordered, possible) goes before any other",
    PoolFit.POSSIBLE: "any node where the volumes can find room, by scores alone; ties go to the surer fit. The KEP",
    PoolFit.GUARANTEED: "only a node where every choice of pools by the driver ends well",
    LegacyPools.STRICT: "an object without pools is one pool, of its `maximumVolumeSize`, else its `capacity`. The KEP",
    LegacyPools.BOUNDED: "each claim at most the maximum, all together at most the sum",
    LegacyPools.INDEPENDENT: "each claim by itself, as kube-scheduler does",
}


def page() -> str:
    default = StorageCapacityArgs()
    head = HEAD.format(
        version=default.api_version,
        reservation=default.reservation,
        timeout=default.reservation_timeout_seconds,
        fit=default.pool_fit,
        legacy=default.legacy_pools,
    )
    parts = [head + arguments(StorageCapacityArgs)]
    for field, choices in (("reservation", Reservation), ("poolFit", PoolFit), ("legacyPools", LegacyPools)):
        rows: list[tuple[object, ...]] = [(f"`{each.value}`", CHOICES[each]) for each in choices]
        parts.append(f"## {field}\n\n" + table(("value", "what it means"), rows))
    parts.append(
        "## reservationTimeoutSeconds\n\nCounted from when a pod's claims are bound, for drivers that report nothing new: "
        "then what is kept back is let go, refreshed or not. A negative number is an error."
    )
    return "\n\n".join(parts)
