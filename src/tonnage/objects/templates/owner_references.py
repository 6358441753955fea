"""Owner references to objects: by the garbage collector's rules, what names an owner goes when its owner goes.

A plain reference says no more than that. A controller reference also says who manages the object, of which there is one
at most, and blocks a deletion of the owner in the foreground until the object is gone.
"""

from __future__ import annotations

from tonnage.objects import scheme
from tonnage.objects.meta import Object, OwnerReference


def owner_ref(owner: Object) -> OwnerReference:
    """A reference to an owner that does not manage the object."""
    resource = scheme.resource_of(type(owner))
    return OwnerReference(api_version=resource.api_version, kind=resource.kind, name=owner.name, uid=owner.uid)


def controller_ref(owner: Object) -> OwnerReference:
    """A reference to the controller that made the object. Mirrors NewControllerRef."""
    resource = scheme.resource_of(type(owner))
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=owner.name,
        uid=owner.uid,
        controller=True,
        block_owner_deletion=True,
    )


def refers_to(reference: OwnerReference, owner: Object) -> bool:
    """Whether a reference names an object of this kind and name, in this life of it or an earlier one."""
    resource = scheme.resource_of(type(owner))
    named = (reference.api_version, reference.kind, reference.name)
    return named == (resource.api_version, resource.kind, owner.name)
