"""The schema files: their notation, the errors with file and line, and what stands in the real ones."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tonnage.documents.schema import (
    FILES,
    ListOf,
    MapOf,
    Scalar,
    SchemaError,
    Struct,
    load,
    schema_of,
    schema_of_resource,
    structs,
)
from tonnage.objects.resources import RESOURCES

META = """\
package io.k8s.apimachinery.pkg.apis.meta.v1

type ObjectMeta
  name string
"""


def read(*lines: str) -> dict[str, Struct]:
    """The types of a file `core_v1` with these lines."""
    return load({"meta_v1": META, "core_v1": "\n".join(("package io.k8s.api.core.v1", *lines))})["core_v1"]


def refusal(*lines: str) -> str:
    with pytest.raises(SchemaError) as caught:
        read(*lines)
    return caught.value.message


# The notation


def test_a_kind_has_api_version_kind_and_metadata_in_front() -> None:
    kind = read("kind Node", "  spec NodeSpec", "type NodeSpec", "  unschedulable bool")["Node"]
    assert kind.is_kind
    assert list(kind.fields) == ["apiVersion", "kind", "metadata", "spec"]
    metadata = kind.fields["metadata"].type
    assert isinstance(metadata, Struct)
    assert metadata.full_name == "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def test_a_type_has_its_own_fields_only_and_a_full_name() -> None:
    struct = read("type NodeSpec", "  unschedulable bool")["NodeSpec"]
    assert (struct.is_kind, list(struct.fields)) == (False, ["unschedulable"])
    assert struct.full_name == "io.k8s.api.core.v1.NodeSpec"


def test_a_field_says_whether_it_is_required() -> None:
    fields = read("type Taint", "  key! string", "  value string")["Taint"].fields
    assert (fields["key"].name, fields["key"].required) == ("key", True)
    assert fields["value"].required is False


def test_scalars_lists_and_maps_nest() -> None:
    fields = read("type T", "  amount Quantity", "  names [string]", "  amounts {Quantity}", "  rows [{int32}]")[
        "T"
    ].fields
    assert isinstance(fields["amount"].type, Scalar)
    assert fields["amount"].type.name == "Quantity"
    names, amounts, rows = (fields[name].type for name in ("names", "amounts", "rows"))
    assert isinstance(names, ListOf)
    assert isinstance(names.item, Scalar)
    assert isinstance(amounts, MapOf)
    assert isinstance(rows, ListOf)
    assert isinstance(rows.item, MapOf)


def test_types_refer_to_one_another_in_any_order_and_to_themselves() -> None:
    types = read("type A", "  b B", "  again A", "type B", "  a A")
    assert types["A"].fields["b"].type is types["B"]
    assert types["A"].fields["again"].type is types["A"]
    assert types["B"].fields["a"].type is types["A"]


def test_a_type_of_another_file_is_named_by_its_group_and_those_of_meta_need_none() -> None:
    loaded = load(
        {
            "meta_v1": META,
            "core_v1": "package core\ntype Term\n  key string",
            "storage_v1": "package storage\ntype Class\n  terms [core.Term]\n  metadata ObjectMeta",
        }
    )
    fields = loaded["storage_v1"]["Class"].fields
    terms = fields["terms"].type
    assert isinstance(terms, ListOf)
    assert terms.item is loaded["core_v1"]["Term"]
    assert fields["metadata"].type is loaded["meta_v1"]["ObjectMeta"]


def test_a_type_of_the_own_file_hides_one_of_meta() -> None:
    types = read("type ObjectMeta", "  other string", "type T", "  metadata ObjectMeta")
    assert types["T"].fields["metadata"].type is types["ObjectMeta"]


@pytest.mark.parametrize(
    ("words", "keys", "is_set", "patch_merge", "merge_key", "is_atomic"),
    [
        ("", (), False, False, "", True),
        ("set", (), True, False, "", False),
        ("set merge", (), True, True, "", False),
        ("map=name merge=name", ("name",), False, True, "name", False),
        ("map=port,protocol merge=port", ("port", "protocol"), False, True, "port", False),
        ("merge=ip", (), False, True, "ip", True),
    ],
)
def test_words_after_a_list_say_how_it_merges(
    words: str, keys: tuple[str, ...], is_set: bool, patch_merge: bool, merge_key: str, is_atomic: bool
) -> None:
    merged = read("type T", f"  items [string] {words}")["T"].fields["items"].type
    assert isinstance(merged, ListOf)
    assert (merged.keys, merged.is_set, merged.patch_merge, merged.merge_key) == (keys, is_set, patch_merge, merge_key)
    assert merged.is_atomic is is_atomic


def test_maps_fields_and_types_may_be_atomic() -> None:
    types = read("type T atomic", "  labels {string} atomic", "  part T atomic retainKeys")
    labels, part = types["T"].fields["labels"], types["T"].fields["part"]
    assert types["T"].is_atomic
    assert isinstance(labels.type, MapOf)
    assert labels.type.is_atomic
    assert (part.is_atomic, part.retain_keys) == (True, True)


def test_a_default_and_a_description_are_kept() -> None:
    types = read(
        "type Port  ~ A port of a container.", "  protocol string default=TCP ~ TCP, UDP or SCTP; TCP=default."
    )
    assert types["Port"].description == "A port of a container."
    assert types["Port"].fields["protocol"].default == "TCP"
    assert types["Port"].fields["protocol"].description == "TCP, UDP or SCTP; TCP=default."


def test_a_struct_may_be_merged_by_field_though_its_type_is_atomic_and_replaced_by_strategic_merge() -> None:
    fields = read("type T atomic", "  part T granular", "  other T replace", "  plain T")["T"].fields
    assert [fields[name].is_granular for name in fields] == [True, False, False]
    assert [fields[name].patch_replace for name in fields] == [False, True, False]


def test_a_number_places_a_field_in_protobuf_and_a_path_one_that_json_inlines() -> None:
    fields = read("kind T", "  a string @4", "  b [string] @2.10 set", "  c string")["T"].fields
    assert {name: field.wire for name, field in fields.items()} == {
        "apiVersion": (),
        "kind": (),
        "metadata": (1,),
        "a": (4,),
        "b": (2, 10),
        "c": (),
    }


def test_a_zero_counts_where_it_is_marked_or_the_field_is_required() -> None:
    fields = read("type T", "  a int32 @1", "  b int32 @2?", "  c! int32 @3", "  d! int32 @4-")["T"].fields
    assert {name: field.keeps_zero for name, field in fields.items()} == {"a": False, "b": True, "c": True, "d": False}
    assert [field.wire for field in fields.values()] == [(1,), (2,), (3,), (4,)]


def test_empty_lines_and_comments_are_skipped() -> None:
    types = read("", "# a comment", "type T", "", "  a string", "  # another", "  b string")
    assert list(types["T"].fields) == ["a", "b"]


# Errors: the `package` line is line 1.


def test_a_line_that_starts_nothing_is_named_with_file_and_line() -> None:
    assert refusal("", "struct Node") == "core_v1.schema:3: expected package, kind or type, found 'struct'"


def test_a_type_that_stands_twice_is_an_error() -> None:
    assert refusal("type A", "  x string", "kind A") == "core_v1.schema:4: type A stands here a second time"


@pytest.mark.parametrize(
    ("field", "unknown"),
    [
        ("x Strin", "'Strin'"),
        ("x [Strin]", "'Strin'"),
        ("x other.B", "'other'"),
        ("x meta.Nothing", "'Nothing'"),
        ("x string shiny", "'shiny'"),
        ("x string @0", "'@0'"),
        ("x string @1.", "'@1.'"),
        ("x string @?", "'@?'"),
    ],
)
def test_what_a_field_does_not_know_is_named_with_file_and_line(field: str, unknown: str) -> None:
    assert refusal("type A", f"  {field}") == f"core_v1.schema:3: cannot read '{field}': {unknown} is not known"


# The real files


def test_every_file_is_there_and_every_resource_has_its_kind() -> None:
    assert {struct.package for struct in structs()} == {
        "io.k8s.apimachinery.pkg.apis.meta.v1",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
        *(
            f"io.k8s.api.{stem.replace('_', '.')}"
            for stem in FILES.values()
            if stem not in ("meta_v1", "apiextensions_v1")
        ),
    }
    for row in RESOURCES:
        assert schema_of_resource(row).is_kind
        assert schema_of_resource(row).name == row.kind


def test_every_key_by_which_a_list_merges_is_a_field_of_its_items() -> None:
    for struct in structs():
        for field in struct.fields.values():
            if isinstance(field.type, ListOf) and isinstance(field.type.item, Struct):
                named = {*field.type.keys, field.type.merge_key} - {""}
                assert named <= field.type.item.fields.keys(), f"{struct.name}.{field.name}"


def test_every_field_has_a_number_but_those_of_the_envelope_and_our_own() -> None:
    without = {
        f"{struct.name}.{field.name}" for struct in structs() for field in struct.fields.values() if not field.wire
    }
    kinds = {struct.name for struct in structs() if struct.is_kind} | {"DeleteOptions", "Status"}
    envelope = {f"{kind}.{name}" for kind in kinds for name in ("apiVersion", "kind")}
    assert without - envelope == {"CSIDriverSpec.volumeRebuilding", "CSIStorageCapacity.availableCapacities"}


def test_no_two_fields_of_a_message_share_a_number() -> None:
    for struct in structs():
        paths = sorted(field.wire for field in struct.fields.values() if field.wire)
        for path, following in pairwise(paths):
            assert following[: len(path)] != path, f"{struct.name}: {path} and {following}"


def test_what_merges_against_the_habit_of_its_type_is_marked() -> None:
    granular = {f"{struct.name}.{f.name}" for struct in structs() for f in struct.fields.values() if f.is_granular}
    replaced = {f"{struct.name}.{f.name}" for struct in structs() for f in struct.fields.values() if f.patch_replace}
    assert granular == {"PersistentVolumeSpec.claimRef", "PersistentVolumeClaimStatus.allocatedResourceStatuses"}
    assert replaced == {"PodDisruptionBudgetSpec.selector"}


def test_a_few_facts_that_others_depend_on() -> None:
    # Under strategic merge CSINode drivers merge by name, a node's taints do not merge at all.
    drivers = schema_of("storage.k8s.io", "v1", "CSINodeSpec").fields["drivers"].type
    taints = schema_of("", "v1", "NodeSpec").fields["taints"].type
    assert isinstance(drivers, ListOf)
    assert isinstance(taints, ListOf)
    assert (drivers.keys, drivers.merge_key) == (("name",), "name")
    assert (taints.is_atomic, taints.patch_merge) == (True, False)
    pools = schema_of("storage.k8s.io", "v1", "CSIStorageCapacity").fields["availableCapacities"].type
    assert isinstance(pools, ListOf)
    assert pools.is_atomic


def test_what_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="Widget"):
        schema_of("", "v1", "Widget")
    with pytest.raises(KeyError, match="example"):
        schema_of("example.com", "v1", "Widget")
