"""The typed classes against the one table of resources, and field by field against the schema."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import pytest

import tonnage.objects
from tonnage.documents import schema
from tonnage.documents.schema import ListOf, MapOf, Scalar, Struct, schema_of, schema_of_resource
from tonnage.objects import events_v1
from tonnage.objects.codec import CLASS_BY_KIND, RESOURCE_BY_CLASS, class_of, resource_of
from tonnage.objects.core_v1 import Event, InTreeDisk, Pod, TypedObjectReference
from tonnage.objects.meta import Condition, Document, MicroTime, Object, Record, Status
from tonnage.objects.resources import BY_KIND, BY_PLURAL, RESOURCES
from tonnage.quantity import Quantity

# Served, and read by no program: devices are allocated by schedulers that know them, and what a definition brings is
# found by discovery.
WITHOUT_A_CLASS = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "DeviceClass",
    "LimitRange",
    "NetworkPolicy",
    "PodTemplate",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
    "Role",
    "RoleBinding",
    "RuntimeClass",
}


SHARED = (Condition, InTreeDisk, TypedObjectReference)
"""Classes for several types of the schema, which have the fields of all of them that programs read."""


def test_a_class_leads_to_its_resource_and_back() -> None:
    assert resource_of(Pod) is BY_PLURAL["", "pods"]
    assert class_of("v1", "Pod") is Pod


def test_the_two_events_are_told_apart_by_their_group() -> None:
    assert class_of("v1", "Event") is Event
    assert class_of("events.k8s.io/v1", "Event") is events_v1.Event
    assert resource_of(events_v1.Event).group == "events.k8s.io"


def test_every_resource_has_a_class_unless_no_program_reads_it() -> None:
    assert {row.kind for row in RESOURCES if (row.api_version, row.kind) not in CLASS_BY_KIND} == WITHOUT_A_CLASS


def test_every_kind_among_the_classes_is_in_the_table() -> None:
    assert {cls for cls in _records() if issubclass(cls, Object) and cls not in (Object, Document)} == set(
        RESOURCE_BY_CLASS
    )


def test_classes_are_named_as_their_kinds() -> None:
    for cls, row in RESOURCE_BY_CLASS.items():
        assert cls.__name__ == row.kind
        assert BY_KIND[row.api_version, row.kind] is row


def test_every_record_is_frozen_keyword_only_and_open_to_unknown_fields() -> None:
    for cls in _records():
        config = cls.__struct_config__
        assert (config.frozen, config.omit_defaults, config.forbid_unknown_fields) == (True, True, False), cls
        for field in msgspec.structs.fields(cls):
            # A class that is not keyword-only offers its fields as positional patterns.
            assert field.name not in cls.__match_args__, f"{cls.__name__}.{field.name}"


@pytest.mark.parametrize("cls", [*RESOURCE_BY_CLASS, Status], ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_every_modelled_field_is_in_the_schema_with_a_fitting_type(cls: type[Record]) -> None:
    shape = schema_of("meta", "v1", "Status") if cls is Status else schema_of_resource(RESOURCE_BY_CLASS[cls])  # type: ignore[index]
    assert list(_misfits(cls, shape, cls.__name__)) == []


@pytest.mark.parametrize("cls", SHARED)
def test_every_field_of_a_class_for_several_types_is_in_the_schema_of_one(cls: type[Record]) -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(cls)}
    assert fields <= {name for shape in _read_as(cls) for name in shape.fields}


def test_every_record_is_part_of_a_kind() -> None:
    parts = {"Document", "ListMeta", "Object", "Record", "Status", "StatusCause", "StatusDetails", "Condition"}
    parts |= {"InTreeVolumeSource"}
    reached = {record for cls in RESOURCE_BY_CLASS for record in _records_in(cls)}
    assert {cls.__name__ for cls in _records() if cls not in reached} <= parts


def test_a_field_that_is_misspelt_or_of_another_type_would_be_found() -> None:
    class NodeSpec(Record):
        unschedulabel: bool = False
        taints: tuple[str, ...] = ()
        pod_cidr: str = ""
        provider_id: str = msgspec.field(name="providerID")

    assert list(_misfits(NodeSpec, schema_of("", "v1", "NodeSpec"), "spec")) == [
        "spec.unschedulabel: not in the schema",
        "spec.taints[]: str does not fit Taint",
        "spec.podCidr: not in the schema",
        "spec.providerID: required here, not in the schema",
    ]


def _records() -> set[type[Record]]:
    """Every class that reads a part of an object: those of the modules of groups and versions, and what they use."""
    for module in pkgutil.iter_modules(tonnage.objects.__path__, "tonnage.objects."):
        if module.name.endswith("_v1"):
            importlib.import_module(module.name)
    ours = (cls for cls in _subclasses(Record) if cls.__module__.startswith("tonnage.objects."))
    return {cls for cls in ours if not cls.__name__.startswith("_")}


def _subclasses(cls: type[Record]) -> Iterator[type[Record]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def _records_in(annotation: Any) -> Iterator[type[Record]]:
    """The records that a type consists of, itself included."""
    if isinstance(annotation, type) and issubclass(annotation, Record):
        yield annotation
        for field in msgspec.structs.fields(annotation):
            yield from _records_in(field.type)
    for part in get_args(annotation):
        yield from _records_in(part)


SCALARS: dict[Any, set[str]] = {
    str: {"string"},
    bool: {"bool"},
    int: {"int32", "int64"},
    bytes: {"bytes"},
    Quantity: {"Quantity"},
    datetime: {"Time"},
    MicroTime: {"MicroTime"},
    (int, str): {"IntOrString"},
    Any: {"any"},
}


def _misfits(annotation: Any, shape: schema.Type, path: str) -> Iterator[str]:
    """Where a Python type and a type of the schema disagree."""
    choices = _choices(annotation)
    (plain,) = choices if len(choices) == 1 else (tuple(choices),)
    origin = get_origin(plain)
    if isinstance(plain, type) and issubclass(plain, Record) and isinstance(shape, Struct):
        for field in msgspec.structs.fields(plain):
            there = shape.fields.get(field.encode_name)
            field_path = f"{path}.{field.encode_name}"
            if there is None:
                if not issubclass(plain, SHARED):
                    yield f"{field_path}: not in the schema"
            elif field.required and not there.required:
                yield f"{field_path}: required here, not in the schema"
            else:
                yield from _misfits(field.type, there.type, field_path)
    elif (
        isinstance(plain, type) and issubclass(plain, Record) and isinstance(shape, Scalar) and shape.name == "FieldsV1"
    ):
        return  # its keys are fields of the object, each with "f:" before it; no schema lists them
    elif origin is tuple and isinstance(shape, ListOf):
        yield from _misfits(get_args(plain)[0], shape.item, f"{path}[]")
    elif origin is Mapping and isinstance(shape, MapOf):
        yield from _misfits(get_args(plain)[1], shape.item, f"{path}{{}}")
    elif plain == Mapping[str, Any] and isinstance(shape, Struct):
        pass  # a template, kept whole
    elif not (isinstance(shape, Scalar) and shape.name in SCALARS.get(plain, ())):
        told = shape.name if isinstance(shape, Scalar | Struct) else type(shape).__name__
        yield f"{path}: {getattr(plain, '__name__', plain)} does not fit {told}"


def _read_as(wanted: type[Record]) -> Iterator[Struct]:
    """The types of the schema that a class is read from, in all kinds."""
    pending: list[tuple[Any, schema.Type]] = [(cls, schema_of_resource(row)) for cls, row in RESOURCE_BY_CLASS.items()]
    while pending:
        annotation, shape = pending.pop()
        for plain in _choices(annotation):
            if isinstance(plain, type) and issubclass(plain, Record) and isinstance(shape, Struct):
                if plain is wanted:
                    yield shape
                fields = msgspec.structs.fields(plain)
                pending += [(f.type, shape.fields[f.encode_name].type) for f in fields if f.encode_name in shape.fields]
            elif get_origin(plain) is tuple and isinstance(shape, ListOf):
                pending.append((get_args(plain)[0], shape.item))


def _choices(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        return _choices(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [choice for part in get_args(annotation) for choice in _choices(part)]
    return [] if annotation is NoneType else [annotation]
