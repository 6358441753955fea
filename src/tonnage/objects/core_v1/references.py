"""How one object names another."""

from __future__ import annotations

from tonnage.objects.meta import Key, Record


class ObjectReference(Record):
    """Any object, as events and volumes name it; a `uid` pins one life of it."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""

    @property
    def key(self) -> Key:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class SecretReference(Record):
    """A Secret of any namespace, as drivers are given credentials."""

    name: str = ""
    namespace: str = ""


class TypedObjectReference(Record):
    """What a claim is to be filled from; an empty `namespace` is the claim's own."""

    kind: str
    name: str
    api_group: str = ""
    namespace: str = ""


class TypedLocalObjectReference(Record):
    """The same within the claim's own namespace."""

    kind: str
    name: str
    api_group: str = ""
