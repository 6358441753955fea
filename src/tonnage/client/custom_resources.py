"""Objects of kinds that are in no table of ours, such as those of a CustomResourceDefinition, as plain documents.

    LVM_NODES = Resource("local.openebs.io", "v1alpha1", "LVMNode", "lvmnodes", namespaced=True)
    nodes = informers.of(document_class(LVM_NODES), namespace="openebs")
    nodes.on_change(lambda node: print(node.key, node.doc.get("volumeGroups")))

A `Resource` says where they are; the class that is made of it holds their metadata, by which informers, caches and
queues tell objects apart, and beside it the whole document. A server that does not have the kind answers NotFound; an
informer goes on asking, and says so in `last_failure`.
"""

from __future__ import annotations

from functools import cache

from tonnage.objects.meta import Document, RecordMeta
from tonnage.objects.resources import Resource
from tonnage.objects.scheme import RESOURCE_BY_HEAD


@cache
def document_class(resource: Resource) -> type[Document]:
    """The class of this resource whose objects keep their whole document in `doc`; always the same one."""
    # Named as the kind, because that is what an object's `kind` is compared with.
    cls = RecordMeta(resource.kind, (Document,), {"__module__": __name__, "__doc__": f"A {resource.kind}, whole."})
    assert issubclass(cls, Document)
    RESOURCE_BY_HEAD[cls] = resource
    return cls
