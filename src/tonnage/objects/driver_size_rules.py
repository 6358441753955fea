"""The size rules of drivers whose arithmetic is known, for classes that do not tell them (`tonnage.dev/size-rules`).

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

from collections.abc import Callable
from typing import Final

from tonnage.objects.storage_v1 import StorageClass

_WHOLE_GI: Final = "step=1Mi,step=1Gi,above=1Gi"
_LVM_EXTENT: Final = "extent=4Mi"
_TOPOLVM_MINIMUM: Final = {"ext4": "32Mi", "xfs": "300Mi", "btrfs": "200Mi"}
_TOPOLVM_BLOCK: Final = "block-minimum=8Mi"
_FSTYPE: Final = "csi.storage.k8s.io/fstype"


def _openebs_lvm(parameters: dict[str, str]) -> str:
    return f"{_WHOLE_GI},{_LVM_EXTENT}"


def _openebs_zfs(parameters: dict[str, str]) -> str:
    """A dataset has a quota, and reserves its size only with `thinprovision: "no"`; a zvol unless with "yes"."""
    thin, is_dataset = parameters.get("thinprovision", ""), parameters.get("fstype", "") == "zfs"
    reserves = thin == "no" or (not is_dataset and thin != "yes")
    return f"{_WHOLE_GI},strict" if reserves else _WHOLE_GI


def _topolvm(parameters: dict[str, str]) -> str:
    minimum = _TOPOLVM_MINIMUM.get(parameters.get(_FSTYPE, ""))
    return ",".join(filter(None, (minimum and f"minimum={minimum}", _TOPOLVM_BLOCK, _LVM_EXTENT)))


_RULES: Final[dict[str, Callable[[dict[str, str]], str]]] = {
    "local.csi.openebs.io": _openebs_lvm,
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
