"""Sets of field paths, and the walks that make them from documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tonnage.documents.apply import field_set
from tonnage.documents.apply.field_set import Tree, contains, difference, intersection, path_text, paths, union, without
from tonnage.documents.apply.field_walk import FieldChanges, UnnamedItem, shape_of
from tonnage.documents.schema import Struct, schema_of
from tonnage.objects.document import Doc, copy

POD = schema_of("", "v1", "Pod")
NODE = schema_of("", "v1", "Node")
DEPLOYMENT = schema_of("apps", "v1", "Deployment")
ACCOUNT = schema_of("", "v1", "ServiceAccount")
REVISION = schema_of("apps", "v1", "ControllerRevision")


fields = field_set.read


def leaves(struct: Struct, doc: Doc) -> Tree:
    return shape_of(struct).leaves(doc) or {}


def compare(struct: Struct, old: Doc, new: Doc) -> FieldChanges:
    return shape_of(struct).compare(old, new)


def pod(*containers: Doc, **spec: Any) -> Doc:
    return {"spec": {"containers": list(containers), **spec}}


# -- the set -----------------------------------------------------------------------------------------------------------


def test_a_dot_says_that_a_node_with_more_below_it_is_in_the_set_itself() -> None:
    both, below = fields({"f:a": {".": {}, "f:b": {}}}), fields({"f:a": {"f:b": {}}})
    assert list(paths(both)) == [("f:a",), ("f:a", "f:b")]
    assert list(paths(below)) == [("f:a", "f:b")]
    assert contains(both, ("f:a",))
    assert not contains(below, ("f:a",))
    assert not contains(both, ())


def test_sets_are_added_subtracted_and_intersected_path_by_path() -> None:
    left, right = fields({"f:a": {".": {}, "f:b": {}, "f:c": {}}}), fields({"f:a": {"f:b": {}}, "f:d": {}})
    assert union(left, right) == fields({"f:a": {".": {}, "f:b": {}, "f:c": {}}, "f:d": {}})
    assert difference(left, right) == fields({"f:a": {".": {}, "f:c": {}}})
    assert intersection(left, right) == fields({"f:a": {"f:b": {}}})
    assert difference(right, left) == fields({"f:d": {}})
    assert difference(left, left) == {}


def test_subtracting_a_node_leaves_what_is_below_it() -> None:
    both = fields({"f:a": {".": {}, "f:b": {}}})
    assert difference(both, fields({"f:a": {}})) == fields({"f:a": {"f:b": {}}})
    assert difference(both, fields({"f:a": {"f:b": {}}})) == fields({"f:a": {}})


def test_without_takes_a_node_and_everything_below_it() -> None:
    status = field_set.of(("status",), ("metadata", "labels"))
    owned = fields({"f:status": {".": {}, "f:phase": {}}, "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {}}})
    assert without(owned, status) == fields({"f:metadata": {"f:finalizers": {}}})
    assert without(fields({"f:a": {".": {}, "f:b": {}}}), fields({"f:a": {"f:b": {}}})) == fields({"f:a": {}})


def test_an_operation_leaves_its_operands_alone() -> None:
    trees: list[Any] = [{"f:a": {"f:b": {}}, "f:c": {}}, {"f:a": {".": {}, "f:d": {}}, "f:c": {}}]
    left, right = copy(trees)
    for operation in (union, difference, intersection, without):
        operation(left, right)
    assert [left, right] == trees


def test_clients_may_spell_a_step_in_their_own_way() -> None:
    sent: Doc = {'k:{"b": 1, "a": "<x>"}': {}, 'v: "y"': {".": {}}, "i:07": {}, "q:unknown": {"f:x": {}}}
    assert fields({"f:l": sent}) == {"f:l": {'k:{"a":"\\u003cx\\u003e","b":1}': {}, 'v:"y"': {}, "i:7": {}}}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"f": {}}, "key must be 2 characters long: f"),
        ({"field": {}}, "missing colon: field"),
        ({"k:[1]": {}}, "expected an object of scalars: k:[1]"),
        ({'v:{"a":1}': {}}, 'expected a scalar: v:{"a":1}'),
        ({"f:a": []}, "expected an object, found []"),
        ("x", 'expected an object, found "x"'),
    ],
)
def test_what_is_no_set_is_refused(tree: Any, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        fields(tree)
    assert str(refused.value) == message


def test_broken_json_in_a_step_is_refused() -> None:
    for step in ("v:{", "k:{", "i:x"):
        with pytest.raises(ValueError):
            fields({step: {}})


def test_paths_come_in_upstreams_order() -> None:
    # Members before what is below them; fields, then items by key, by value, by position; numbers before text.
    tree: Doc = {
        "i:1": {},
        'v:"b"': {},
        "v:10": {},
        "v:9": {},
        'k:{"n":"x"}': {},
        "f:z": {"f:y": {}},
        "f:a": {},
        "v:true": {},
    }
    told = [path_text(path) for path in paths(fields(tree))]
    assert told == [".a", '[n="x"]', "[=9]", "[=10]", '[="b"]', "[=true]", "[1]", ".z.y"]


def test_a_path_is_told_as_upstream_tells_it() -> None:
    path = ("f:spec", "f:containers", 'k:{"name":"web"}', "f:ports", 'k:{"containerPort":80,"protocol":"TCP"}')
    assert path_text(path) == '.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"]'


# -- what a document sets ----------------------------------------------------------------------------------------------


def test_leaves_and_items_are_set_but_no_struct_on_the_way() -> None:
    doc = pod({"name": "web", "image": "i", "resources": {"limits": {"cpu": "1"}}}, nodeSelector={"a": "b"})
    doc["metadata"] = {"labels": {"app": "web"}, "finalizers": ["x/y"]}
    assert leaves(POD, doc) == fields(
        {
            "f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {'v:"x/y"': {}}},
            "f:spec": {
                "f:nodeSelector": {},  # an atomic map
                "f:containers": {
                    'k:{"name":"web"}': {
                        ".": {},
                        "f:name": {},
                        "f:image": {},
                        "f:resources": {"f:limits": {"f:cpu": {}}},
                    }
                },
            },
        }
    )


def test_an_absent_key_takes_the_schemas_default() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"protocol": "TCP"}]
    tree = leaves(POD, pod({"name": "a", "ports": ports}))
    assert list(tree["f:spec"]["f:containers"]['k:{"name":"a"}']["f:ports"]) == [
        'k:{"containerPort":80,"protocol":"TCP"}',
        'k:{"containerPort":80,"protocol":"UDP"}',
        'k:{"containerPort":0,"protocol":"TCP"}',  # a required number that is left out is zero
    ]


def test_null_and_empty_objects_are_set_but_empty_lists_are_not() -> None:
    doc = {"metadata": {"labels": None, "annotations": {}, "finalizers": []}, "spec": {"tolerations": []}}
    # Tolerations are atomic, so that even an empty list is a value.
    expected: Doc = {"f:metadata": {"f:labels": {}, "f:annotations": {}}, "f:spec": {"f:tolerations": {}}}
    assert leaves(POD, doc) == fields(expected)


def test_items_that_share_a_name_are_one_field() -> None:
    env = [{"name": "E", "value": "1"}, {"name": "E", "value": "2"}, {"name": "F", "value": "3"}]
    tree = leaves(POD, pod({"name": "a", "env": env}))
    assert tree["f:spec"]["f:containers"]['k:{"name":"a"}']["f:env"] == {
        'k:{"name":"E"}': {},
        'k:{"name":"F"}': {".": {}, "f:name": {}, "f:value": {}},
    }


def test_an_undeclared_value_is_one_field() -> None:
    assert leaves(REVISION, {"data": {"a": {"b": 1}}}) == fields({"f:data": {}})


def test_an_item_without_any_key_cannot_be_named() -> None:
    with pytest.raises(UnnamedItem) as refused:
        leaves(ACCOUNT, {"secrets": [{"namespace": "n"}]})
    assert str(refused.value) == (
        'associative list with keys has an element that omits all key fields ["name"] '
        "(and doesn't have default values for any key fields)"
    )


# -- how two documents differ ------------------------------------------------------------------------------------------


def test_what_came_went_and_changed_is_told_apart() -> None:
    old = {"metadata": {"labels": {"a": "1", "b": "1"}}, **pod({"name": "x", "image": "i"}, hostname="h")}
    new = {"metadata": {"labels": {"a": "2", "c": "1"}}, **pod({"name": "y", "image": "i"}, hostname="h")}
    item: Any = {".": {}, "f:name": {}, "f:image": {}}
    added, modified, removed = compare(POD, old, new)
    assert added == {"f:metadata": {"f:labels": {"f:c": {}}}, "f:spec": {"f:containers": {'k:{"name":"y"}': item}}}
    assert modified == {"f:metadata": {"f:labels": {"f:a": {}}}}
    assert removed == {
        "f:metadata": {"f:labels": {"f:b": {}}},
        "f:spec": {"f:containers": {'k:{"name":"x"}': item}},
    }


def test_a_container_that_comes_as_a_whole_is_added_itself() -> None:
    added, _, _ = compare(POD, pod(), pod(affinity={"nodeAffinity": {}}, volumes=[{"name": "v", "emptyDir": {}}]))
    volume: Any = {".": {}, "f:name": {}, "f:emptyDir": {}}
    assert added == {
        "f:spec": {
            "f:affinity": {".": {}, "f:nodeAffinity": {}},
            "f:volumes": {".": {}, 'k:{"name":"v"}': volume},
        }
    }


def test_what_a_go_object_always_has_is_not_added_itself() -> None:
    # spec, template, its metadata, and the required list of containers are there in an empty Deployment.
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    added, modified, _ = compare(DEPLOYMENT, {}, {"spec": {"template": template, "strategy": {}}})
    container: Any = {".": {}, "f:name": {}}
    assert added == {
        "f:spec": {
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {"f:containers": {'k:{"name":"c"}': container}},
            }
        }
    }
    assert not modified


def test_a_required_scalar_counts_as_zero_where_it_is_left_out() -> None:
    attachment = schema_of("storage.k8s.io", "v1", "VolumeAttachment")
    assert all(not part for part in compare(attachment, {}, {"status": {"attached": False}}))
    assert compare(attachment, {}, {"status": {"attached": True}}).modified == {"f:status": {"f:attached": {}}}


def test_the_order_of_items_does_not_count_but_that_of_an_atomic_list_does() -> None:
    old = pod({"name": "a", "args": ["x", "y"]}, {"name": "b"})
    new = pod({"name": "b"}, {"name": "a", "args": ["y", "x"]})
    _, modified, _ = compare(POD, old, new)
    assert modified == {"f:spec": {"f:containers": {'k:{"name":"a"}': {"f:args": {}}}}}


def test_items_that_begin_or_cease_to_share_a_name_change_as_a_whole() -> None:
    def env(*values: str) -> Doc:
        return pod({"name": "a", "env": [{"name": "E", "value": value} for value in values]})

    def at(part: Tree) -> Any:
        return part and part["f:spec"]["f:containers"]['k:{"name":"a"}']["f:env"]['k:{"name":"E"}']

    item: Any = {".": {}, "f:name": {}, "f:value": {}}
    assert [at(part) for part in compare(POD, env("1"), env("1", "2"))] == [{}, {}, item]
    assert [at(part) for part in compare(POD, env("1", "2"), env("1"))] == [item, {}, {}]
    assert compare(POD, env("1", "2"), env("1", "3")).modified == fields(
        {"f:spec": {"f:containers": {'k:{"name":"a"}': {"f:env": {'k:{"name":"E"}': {}}}}}}
    )
    assert all(not part for part in compare(POD, env("1", "2"), env("1", "2")))


def test_null_against_empty_is_a_change_of_the_field() -> None:
    _, modified, _ = compare(POD, {"metadata": {"labels": {}}}, {"metadata": {"labels": None}})
    assert modified == {"f:metadata": {"f:labels": {}}}


def test_a_set_changes_value_by_value() -> None:
    old, new = {"spec": {"podCIDRs": ["a", "b"]}}, {"spec": {"podCIDRs": ["b", "c"]}}
    added, modified, removed = compare(NODE, old, new)
    assert added == {"f:spec": {"f:podCIDRs": {'v:"c"': {}}}}
    assert not modified
    assert removed == {"f:spec": {"f:podCIDRs": {'v:"a"': {}}}}


# -- taking fields out -------------------------------------------------------------------------------------------------


def test_members_go_with_all_below_them_and_emptied_containers_stay_as_null() -> None:
    doc = {"metadata": {"labels": {"a": "1"}}, **pod({"name": "x", "image": "i"}, {"name": "y"}, hostname="h")}
    out = {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {"f:containers": {'k:{"name":"x"}': {"f:image": {}}, 'k:{"name":"y"}': {}}},
    }
    assert shape_of(POD).remove(doc, fields(out)) == {
        "metadata": {"labels": None},
        **pod({"name": "x"}, hostname="h"),
    }
    assert shape_of(POD).remove(doc, {}) == doc


def test_struct_fields_on_the_way_become_members_but_map_entries_and_items_do_not() -> None:
    owned = fields(
        {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:containers": {'k:{"name":"x"}': {"f:image": {}}}}}
    )
    item: Any = {"f:image": {}}
    assert shape_of(POD).named(owned) == {
        "f:metadata": {".": {}, "f:labels": {".": {}, "f:a": {}}},
        "f:spec": {".": {}, "f:containers": {".": {}, 'k:{"name":"x"}': item}},
    }


def test_the_wires_tree_is_in_upstreams_order() -> None:
    shuffled: Tree = {"f:spec": {'k:{"name":"b"}': {}, "f:z": {"f:b": {}, ".": {}, "f:a": {}}, 'k:{"name":"a"}': {}}}
    assert json.dumps(field_set.in_order({**shuffled, "f:data": {}})) == json.dumps(
        {
            "f:data": {},
            "f:spec": {"f:z": {".": {}, "f:a": {}, "f:b": {}}, 'k:{"name":"a"}': {}, 'k:{"name":"b"}': {}},
        }
    )


def test_a_tree_in_order_is_not_copied() -> None:
    tree: Tree = {"f:data": {".": {}, "f:a": {}}, "f:spec": {}}
    assert field_set.in_order(tree) is tree
