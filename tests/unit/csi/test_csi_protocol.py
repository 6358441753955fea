"""Our csi.proto is the specification's, name by name and number by number, and the stubs are made from it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor, ServiceDescriptor

from tonnage.csi import csi_pb2

FROZEN = Path(__file__).with_name("csi_1_12.txt")
SOURCE = Path(csi_pb2.__file__).parents[2]

SCALARS = {
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_STRING: "string",
}


def shape_of(file: FileDescriptor) -> Iterator[str]:
    """One line for each message, enum and service: everything that the wire depends on."""
    for message in file.message_types_by_name.values():
        yield from _message(message)
    for enum in file.enum_types_by_name.values():
        yield _enum(enum)
    for service in file.services_by_name.values():
        yield _service(service)


def _message(message: Descriptor) -> Iterator[str]:
    yield f"message {_name(message)}: {', '.join(_field(field) for field in message.fields)}".rstrip()
    for enum in message.enum_types:
        yield _enum(enum)
    for nested in message.nested_types:
        if not nested.GetOptions().map_entry:
            yield from _message(nested)


def _field(field: FieldDescriptor) -> str:
    kind = _kind(field)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name
        kind = f"map<{_kind(entry['key'])} {_kind(entry['value'])}>"
    elif field.is_repeated:
        kind = f"repeated {kind}"
    choice = f" of {field.containing_oneof.name}" if field.containing_oneof is not None else ""
    return f"{field.number} {kind} {field.name}{choice}"


def _kind(field: FieldDescriptor) -> str:
    named = field.message_type or field.enum_type
    return SCALARS[field.type] if named is None else _name(named)


def _enum(enum: EnumDescriptor) -> str:
    return f"enum {_name(enum)}: {', '.join(f'{value.number} {value.name}' for value in enum.values)}"


def _service(service: ServiceDescriptor) -> str:
    methods = [
        f"{method.name}({_name(method.input_type)}) {'stream ' * method.server_streaming}{_name(method.output_type)}"
        for method in service.methods
    ]
    return f"service {service.full_name}: {', '.join(methods)}"


def _name(named: Descriptor | EnumDescriptor) -> str:
    return str(named.full_name).removeprefix("csi.v1.")


def test_every_name_and_number_is_the_specifications_but_for_the_one_field_of_kep_5925() -> None:
    ours = list(shape_of(csi_pb2.DESCRIPTOR))
    added = ", 4 repeated int64 available_capacities"
    assert [line for line in ours if added in line] == [
        "message GetCapacityResponse: 1 int64 available_capacity, 2 google.protobuf.Int64Value maximum_volume_size, "
        "3 google.protobuf.Int64Value minimum_volume_size" + added
    ]
    assert sorted(line.replace(added, "") for line in ours) == sorted(FROZEN.read_text().splitlines())


def test_pools_are_field_4_on_the_wire_and_packed() -> None:
    # Key 4 << 3 | 2 = 0x22, then the length, then 5 and 300 (0b10_0101100) as varints.
    assert csi_pb2.GetCapacityResponse(available_capacities=[5, 300]).SerializeToString() == b"\x22\x03\x05\xac\x02"


def test_a_peer_that_does_not_know_pools_reads_the_rest() -> None:
    said = csi_pb2.GetCapacityResponse(available_capacity=7, available_capacities=[5, 2])
    # A message with the same first field and no other, as an older sidecar's GetCapacityResponse.
    older = csi_pb2.CapacityRange.FromString(said.SerializeToString())
    assert older.required_bytes == 7


def test_the_stubs_are_in_step_with_the_protocol(tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is in the dev extras")
    well_known = str(resources.files("grpc_tools") / "_proto")
    out = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    command = ["protoc", f"-I{SOURCE}", f"-I{well_known}", *out, str(SOURCE / "tonnage" / "csi" / "csi.proto")]
    assert protoc.main(command) == 0
    for written in (tmp_path / "tonnage" / "csi").iterdir():
        assert written.read_text() == (SOURCE / "tonnage" / "csi" / written.name).read_text(), "run `make proto`"
