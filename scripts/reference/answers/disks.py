"""The disks of nodes, which several commands show."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from reference.answers.words import Answer, Bytes


class DiskVolume(Answer):
    volume: str | None
    claim: str | None
    pool: Annotated[int | None, Meta(description="its number from 0; null where it is not known")]
    bytes: Bytes
    promised: Annotated[bool, Meta(description="kept back for a claim that has no volume yet")]


class Disk(Answer):
    objects: Annotated[list[str], Meta(description="the capacity objects that tell of it")]
    where: str
    classes: list[str]
    total_bytes: Bytes
    free_bytes: Annotated[list[Bytes], Meta(description="of each pool")]
    volumes: list[DiskVolume]
