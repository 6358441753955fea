"""Which node has which image, and how large it is there. Names are canonical: one without a tag means `:latest`."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.objects.core_v1 import ContainerImage


def canonical(name: str) -> str:
    """The name as images are listed under it; a colon before the last slash is a port, not a tag."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


class Images:
    """image name -> row -> size in bytes."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[int, int]] = {}

    def replace(self, row: int, before: tuple[ContainerImage, ...], after: tuple[ContainerImage, ...]) -> bool:
        """Write what a node has; tells whether anything changed."""
        if before == after:
            return False
        old, new = _sizes(before), _sizes(after)
        for name in old.keys() - new.keys():
            rows = self._sizes[name]
            del rows[row]
            if not rows:
                del self._sizes[name]
        for name, size in new.items():
            self._sizes.setdefault(name, {})[row] = size
        return True

    def where(self, name: str) -> dict[int, int]:
        """Rows that have the image, with its size there."""
        return self._sizes.get(canonical(name), {})


def _sizes(images: Iterable[ContainerImage]) -> dict[str, int]:
    return {canonical(name): image.size_bytes for image in images for name in image.names}
