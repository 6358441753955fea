"""How many bytes a driver takes for a claim: the annotation `tonnage.dev/size-rules` of a StorageClass.

    step=1Mi,step=1Gi,above=1Gi           whole Mi; larger than 1Gi: whole Gi
    minimum=300Mi,block-minimum=8Mi       no volume is smaller; one with volumeMode Block by a minimum of its own
    overhead=2%,overhead=4Mi              on top of the volume, for metadata: shares and amounts are added
    extent=4Mi                            the pool gives whole extents, at the end of all
    strict                                the pool must have more free than is taken: as much is not enough

Words are separated by commas, semicolons or spaces. `above` belongs to the `step` before it; a size follows the step
with the highest `above` that is smaller than the size. A value with an error is ignored as a whole.

The rules of drivers whose arithmetic is known (`known_size_rules`) are for classes that do not tell them:

    OpenEBS LVM    above 1Gi whole Gi, else whole Mi (getRoundedCapacity), then lvcreate's whole extents
    OpenEBS ZFS    the same sizes; a volume with a reservation only where more is free than its size (suitableNodes)
    TopoLVM        a minimum by filesystem or volumeMode (GetMinimumAllocationSize), then lvcreate's whole extents
    Longhorn       at least 10Mi, in whole 2Mi (CreateVolume, RoundUpSize)
    HwameiStor     whole 4Mi (NumericToLVMBytes)
    DirectPV       the size that was asked for

LVM's extents are 4Mi unless a volume group was made with others, which no driver publishes: an admin who has such
groups writes the annotation by hand. `tests/parity/driver_sizes.yaml` has the edges, with the places in the sources.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Final

from tonnage.errors import TonnageError
from tonnage.objects.storage_v1 import SIZE_RULES, StorageClass
from tonnage.quantity import InvalidQuantity, Quantity

_SEPARATORS: Final = re.compile(r"[\s,;]+")
_PERCENT: Final = re.compile(r"\d{1,4}(\.\d{1,9})?%")
_WORDS: Final = "step=, above=, minimum=, block-minimum=, overhead=, extent= and strict"


class InvalidSizeRules(TonnageError):
    """`word`: the part of the value that is wrong."""

    def __init__(self, text: str, word: str, reason: str) -> None:
        self.text, self.word = text, word
        super().__init__(
            f'{SIZE_RULES}="{text}": "{word}" {reason}', hint='write words such as "step=1Mi,step=1Gi,above=1Gi"'
        )


@dataclass(frozen=True, slots=True)
class SizeRules:
    steps: tuple[tuple[int, int], ...] = ()
    """(above, step) in bytes, ascending."""
    minimum: int = 0
    block_minimum: int | None = None
    """None: as `minimum`."""
    overhead_bytes: int = 0
    overhead_share: Fraction = Fraction(0)
    extent: int = 1
    is_strict: bool = False

    @classmethod
    def parse(cls, text: str) -> SizeRules:
        """Raises InvalidSizeRules."""
        amounts: dict[str, int] = {}
        steps: list[tuple[int, int]] = []
        share, is_strict, last = Fraction(0), False, ""
        for word in filter(None, _SEPARATORS.split(text)):
            key, equals, value = word.partition("=")
            if key == "strict" and not equals:
                is_strict = True
            elif key == "step":
                steps.append((0, _amount_in(text, word, value, least=1)))
            elif key == "above":
                if last != "step":
                    raise InvalidSizeRules(text, word, "does not follow a step=: it says which sizes that step is for")
                steps[-1] = (_amount_in(text, word, value), steps[-1][1])
            elif key == "overhead" and _PERCENT.fullmatch(value):
                share += Fraction(value[:-1]) / 100
            elif key == "overhead":
                amounts[key] = amounts.get(key, 0) + _amount_in(text, word, value)
            elif key in ("minimum", "block-minimum", "extent"):
                if key in amounts:
                    raise InvalidSizeRules(text, word, f"is a second {key}=")
                amounts[key] = _amount_in(text, word, value, least=key == "extent")
            else:
                raise InvalidSizeRules(text, word, f"is not known; the rules are {_WORDS}")
            last = key
        steps.sort()
        twice = next((above for (above, _), (other, _) in pairwise(steps) if above == other), None)
        if twice is not None:
            raise InvalidSizeRules(text, "step", f"is given twice for sizes above {_amount(twice)}")
        return cls(
            tuple(steps),
            amounts.get("minimum", 0),
            amounts.get("block-minimum"),
            amounts.get("overhead", 0),
            share,
            amounts.get("extent", 1),
            is_strict,
        )

    def least(self, *, is_block: bool) -> int:
        return self.block_minimum if is_block and self.block_minimum is not None else self.minimum

    def step_of(self, size: int) -> int:
        """The step that a size is rounded up to a multiple of; 1 for none."""
        return next((step for above, step in reversed(self.steps) if size > above), 1)


NO_RULES: Final = SizeRules()


def driver_size(rules: SizeRules, requested_bytes: int, *, is_block: bool = False) -> int:
    """The bytes that a pool loses when the driver makes a volume for this request.

    volume = request or the minimum, rounded up to its step; taken = volume + overhead, rounded up to whole extents
    """
    return taken_by(rules, volume_size(rules, requested_bytes, is_block=is_block))


def taken_by(rules: SizeRules, volume_bytes: int) -> int:
    """The bytes that a pool loses to a volume of this size."""
    return _rounded_up(_with_overhead(rules, volume_bytes), rules.extent)


def volume_size(rules: SizeRules, requested_bytes: int, *, is_block: bool = False) -> int:
    """The size of the volume that the driver makes, without overhead."""
    size = max(requested_bytes, rules.least(is_block=is_block))
    return _rounded_up(size, rules.step_of(size))


def why_larger(rules: SizeRules, requested_bytes: int, *, is_block: bool = False) -> str:
    """Why the driver takes more than is requested, for people; empty if it does not."""
    least = rules.least(is_block=is_block)
    size, taken = max(requested_bytes, least), driver_size(rules, requested_bytes, is_block=is_block)
    if taken == requested_bytes:
        return ""
    volume, reasons = volume_size(rules, requested_bytes, is_block=is_block), list[str]()
    if least > requested_bytes:
        reasons.append(f"makes no volume below {_amount(least)}")
    if volume > size:
        reasons.append(f"rounds up to {_whole(rules.step_of(size))}")
    if rules.overhead_bytes or rules.overhead_share:
        reasons.append("adds " + " and ".join(_overhead(rules)))
    if taken > _with_overhead(rules, volume):
        reasons.append(f"takes whole extents of {_amount(rules.extent)}")
    return f"{_amount(requested_bytes)} asked, the driver {', '.join(reasons)}"


def rules_of(storage_class: StorageClass | None) -> SizeRules:
    """The rules of a class; none if its annotation is missing or invalid."""
    text = storage_class.metadata.annotations.get(SIZE_RULES, "") if storage_class is not None else ""
    return _known(text)[0] if text else NO_RULES


def problem_with_size_rules(storage_class: StorageClass) -> str:
    """Why the annotation of a class is invalid; empty if it is valid or missing."""
    return _known(storage_class.metadata.annotations.get(SIZE_RULES, ""))[1]


@lru_cache(maxsize=1024)
def _known(text: str) -> tuple[SizeRules, str]:
    try:
        return SizeRules.parse(text), ""
    except InvalidSizeRules as exc:
        return NO_RULES, exc.message


def _amount_in(text: str, word: str, value: str, *, least: int = 0) -> int:
    try:
        found = Quantity.parse(value).value()
    except InvalidQuantity as exc:
        share = ' or a share such as "2%"' if word.startswith("overhead") else ""
        raise InvalidSizeRules(text, word, f'has no amount such as "1Gi"{share}') from exc
    if found < least:
        raise InvalidSizeRules(text, word, "must be more than 0" if least else "must not be negative")
    return found


def _with_overhead(rules: SizeRules, volume: int) -> int:
    return volume + rules.overhead_bytes - int(-volume * rules.overhead_share // 1)  # a share is rounded up


def _rounded_up(size: int, step: int) -> int:
    return -(-size // step) * step


def _amount(number: int) -> str:
    return str(Quantity.from_bytes(number))


def _whole(step: int) -> str:
    """whole Gi; multiples of 4Mi"""
    told = _amount(step)
    return f"whole {told[1:]}" if re.fullmatch(r"1[KMGTPE]i", told) else f"multiples of {told}"


def _overhead(rules: SizeRules) -> list[str]:
    share = float(rules.overhead_share * 100)
    return ([f"{share:g}%"] if share else []) + ([_amount(rules.overhead_bytes)] if rules.overhead_bytes else [])


_WHOLE_GI: Final = "step=1Mi,step=1Gi,above=1Gi"
_LVM_EXTENT: Final = "extent=4Mi"
_TOPOLVM_MINIMUM: Final = {"ext4": "32Mi", "xfs": "300Mi", "btrfs": "200Mi"}
_TOPOLVM_BLOCK: Final = "block-minimum=8Mi"
_FSTYPE: Final = "csi.storage.k8s.io/fstype"


def _openebs_zfs(parameters: dict[str, str]) -> str:
    """A dataset has a quota, and reserves its size only with `thinprovision: "no"`; a zvol unless with "yes"."""
    thin, is_dataset = parameters.get("thinprovision", ""), parameters.get("fstype", "") == "zfs"
    reserves = thin == "no" or (not is_dataset and thin != "yes")
    return f"{_WHOLE_GI},strict" if reserves else _WHOLE_GI


def _topolvm(parameters: dict[str, str]) -> str:
    minimum = _TOPOLVM_MINIMUM.get(parameters.get(_FSTYPE) or parameters.get("fstype", ""))
    return ",".join(filter(None, (minimum and f"minimum={minimum}", _TOPOLVM_BLOCK, _LVM_EXTENT)))


_RULES: Final[dict[str, Callable[[dict[str, str]], str]]] = {
    "local.csi.openebs.io": lambda _: f"{_WHOLE_GI},{_LVM_EXTENT}",
    "zfs.csi.openebs.io": _openebs_zfs,
    "topolvm.io": _topolvm,
    "topolvm.cybozu.com": _topolvm,
    "driver.longhorn.io": lambda _: "minimum=10Mi,step=2Mi",
    "lvm.hwameistor.io": lambda _: "step=4Mi",
}
"""By provisioner: from a class's parameters, keys in lower case, to its rules."""


def known_size_rules(storage_class: StorageClass, driver: str = "") -> str:
    """The rules of a class's driver, as the annotation's text; empty if they are not known. `driver`: by the rules of
    this driver instead of the class's own."""
    known = _RULES.get(driver or storage_class.provisioner)
    return known({key.lower(): text for key, text in storage_class.parameters.items()}) if known is not None else ""
