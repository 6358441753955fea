"""The kinds of resource.k8s.io. Defaults and immutable fields are upstream's; selectors, configuration and the contents
of slices are not validated.
"""

from __future__ import annotations

from typing import ClassVar

from tonnage.documents.strategy import Generation, Strategy, keep
from tonnage.objects.document import Doc


class DeviceClassStrategy(Strategy):
    generation = Generation.COUNTED


class ResourceClaimStrategy(Strategy):
    """A claim's spec is fixed at creation; allocation and users are its status."""

    new_status: ClassVar[Doc] = {}
    validate_update = Strategy.validate_immutable

    def prepare_status(self, new: Doc, old: Doc) -> None:
        """Metadata cannot be written through status either."""
        super().prepare_status(new, old)
        keep(new, old, "metadata")


class ResourceClaimTemplateStrategy(Strategy):
    validate_update = Strategy.validate_immutable


class ResourceSliceStrategy(Strategy):
    """Driver, pool and node are fixed; the devices may change."""

    generation = Generation.COUNTED
