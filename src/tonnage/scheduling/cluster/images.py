"""Which node has which image, and how large it is there. Names are canonical: one without a tag means `:latest`.

For each image the rows that have it and its sizes there stand side by side, packed, so that a score reads them as
arrays and a node's event costs its own images. `version_of` tells when an image's answer has changed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tonnage.objects.core_v1 import ContainerImage
from tonnage.scheduling.cluster.columns import Ints

_FIRST_CAPACITY = 4


def canonical(name: str) -> str:
    """The name as images are listed under it; a colon before the last slash is a port, not a tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


class Holders:
    """The rows that have one image, in no order, and its size on each."""

    __slots__ = ("_place", "_rows", "_sizes", "version")

    def __init__(self) -> None:
        self.version = 0
        self._place: dict[int, int] = {}  # row -> where it stands in the arrays
        self._rows = np.zeros(_FIRST_CAPACITY, dtype=np.intp)
        self._sizes: Ints = np.zeros(_FIRST_CAPACITY, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._place)

    @property
    def rows(self) -> npt.NDArray[np.intp]:
        return self._rows[: len(self._place)]

    @property
    def sizes(self) -> Ints:
        return self._sizes[: len(self._place)]

    def put(self, row: int, size: int) -> None:
        place = self._place.setdefault(row, len(self._place))
        if place == len(self._rows):
            self._rows, self._sizes = np.resize(self._rows, 2 * place), np.resize(self._sizes, 2 * place)
        self._rows[place], self._sizes[place] = row, size

    def drop(self, row: int) -> None:
        """Forget a row; the last one takes its place."""
        place, last = self._place.pop(row), len(self._place)
        if place != last:
            moved = int(self._rows[last])
            self._rows[place], self._sizes[place] = moved, self._sizes[last]
            self._place[moved] = place


_NOBODY = Holders()


class Images:
    """Images by canonical name."""

    def __init__(self) -> None:
        self._holders: dict[str, Holders] = {}
        self._tick = 0

    def replace(self, row: int, before: tuple[ContainerImage, ...], after: tuple[ContainerImage, ...]) -> bool:
        """Write what a node has; tells whether anything changed."""
        if before == after:
            return False
        old, new = _sizes(before), _sizes(after)
        for name in old.keys() - new.keys():
            holders = self._holders[name]
            holders.drop(row)
            self._note(holders)
            if not holders:
                del self._holders[name]
        for name, size in new.items():
            if old.get(name) != size:
                holders = self._holders.setdefault(name, Holders())
                holders.put(row, size)
                self._note(holders)
        return old != new

    def _note(self, holders: Holders) -> None:
        self._tick += 1
        holders.version = self._tick

    @property
    def are_unknown(self) -> bool:
        """No node says that it has any."""
        return not self._holders

    def where(self, name: str) -> Holders:
        """Who has the image of this canonical name."""
        return self._holders.get(name, _NOBODY)

    def version_of(self, name: str) -> int:
        """Differs whenever `where` answers differently; 0 while nobody has the image."""
        return self.where(name).version


def _sizes(images: Iterable[ContainerImage]) -> dict[str, int]:
    return {canonical(name): image.size_bytes for image in images for name in image.names}
