"""The class that a claim without one gets, also long after it was made."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.documents.kinds.storage.storage_class import default_class_for
from tonnage.objects.codec import to_doc
from tonnage.objects.core_v1 import PersistentVolumeClaim
from tonnage.objects.storage_v1 import StorageClass


def default_class(claim: PersistentVolumeClaim, classes: Iterable[StorageClass]) -> str | None:
    """The class that a claim without one gets, also long after it was made; None when it has or is to have none."""
    if claim.spec.storage_class_name is not None:
        return None
    return default_class_for(to_doc(claim), [to_doc(each) for each in classes])
