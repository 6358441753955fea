"""What `doctor` answers."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from reference.answers.disks import Disk
from reference.answers.words import Answer


class Finding(Answer):
    name: str
    severity: Literal["error", "warning", "info"]
    object: Annotated[str, Meta(description="Kind namespace/name")]
    message: str
    remedy: str
    driver: str | UnsetType = UNSET


class Summary(Answer):
    error: int
    warning: int
    info: int


class DriverSummary(Answer):
    capacity_objects: int
    layout: Literal["none", "node", "shared", "cluster", "mixed"]
    pools: Annotated[int, Meta(description="the most that one object lists")]
    provisioning: Literal["thick", "thin", "unknown"]
    volume_rebuilding: bool
    provisioning_by: Annotated[str, Meta(description="by what it was judged")] | UnsetType = UNSET


class Recommended(Answer):
    reservation: str
    legacy_pools: str
    pool_fit: str
    why: dict[str, str]
    file: Annotated[str, Meta(description="a KubeSchedulerConfiguration with them")]


class GateState(Answer):
    state: Literal["on", "off", "unknown"]
    by: Annotated[str, Meta(description="what it is read off")]


class Server(Answer):
    version: str
    gates: dict[str, GateState]


class Doctor(Answer):
    """What of a cluster Tonnage can use, and what is wrong with it."""

    source: str
    summary: Summary
    findings: Annotated[list[Finding], Meta(description="the severe ones first")]
    drivers: dict[str, DriverSummary]
    configuration: Recommended
    disks: list[Disk]
    server: Annotated[Server, Meta(description="of a live cluster")] | UnsetType = UNSET
    partial: bool | UnsetType = UNSET
