"""The printed form of upstream's internal types, and what counts as a change in it."""

from __future__ import annotations

from tonnage.documents.validation.internal_form import diff, internal, unchanged
from tonnage.objects.field_errors import go_value


def test_every_field_is_shown_in_order_with_its_zero() -> None:
    shown = internal("CSINodeDriver", {"nodeID": "id", "name": "d"})
    assert go_value(shown) == '{"Name":"d","NodeID":"id","TopologyKeys":null,"Allocatable":null}'


def test_structs_lists_and_amounts_are_shown_inside() -> None:
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"operator": "Exists", "key": "a"}]}]}}
    assert go_value(internal("VolumeNodeAffinity", affinity)) == (
        '{"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"a","Operator":"Exists","Values":null}],'
        '"MatchFields":null}]}}'
    )
    assert internal("ResourceList", {"storage": "1024Mi", "cpu": "0.5"}) == {"cpu": "500m", "storage": "1Gi"}
    assert internal("VolumeNodeAffinity", None) is None


def test_a_selector_is_shown_by_its_wire_names() -> None:
    selector = {
        "matchExpressions": [{"values": ["x"], "operator": "In", "key": "k"}],
        "matchLabels": {"b": "1", "a": "2"},
    }
    assert go_value(internal("LabelSelector", selector)) == (
        '{"matchLabels":{"a":"2","b":"1"},"matchExpressions":[{"key":"k","operator":"In","values":["x"]}]}'
    )


def test_fields_that_go_by_another_name_are_found() -> None:
    source = {"rbd": {"monitors": ["m"], "image": "i", "pool": "p", "user": "u"}}
    shown = internal("PersistentVolumeSource", source)["RBD"]
    assert (shown["CephMonitors"], shown["RBDImage"], shown["RBDPool"], shown["RadosUser"]) == (["m"], "i", "p", "u")


def test_a_zero_is_no_change_and_an_empty_struct_is_one() -> None:
    source = {"driver": "d", "volumeHandle": "h"}
    assert unchanged("CSIPersistentVolumeSource", source | {"readOnly": False, "fsType": ""}, source)
    assert not unchanged("CSIPersistentVolumeSource", source | {"readOnly": True}, source)
    assert unchanged("CSINodeDriver", {"name": "d", "topologyKeys": []}, {"name": "d"})
    assert not unchanged("CSINodeDriver", {"name": "d", "allocatable": {}}, {"name": "d"})
    assert not unchanged("LabelSelector", {}, None)


def test_the_same_amount_written_otherwise_is_no_change() -> None:
    # 1000Mi = 1000 * 1,048,576 bytes.
    assert unchanged("ResourceList", {"storage": "1048576000"}, {"storage": "1000Mi"})
    assert not unchanged("ResourceList", {"storage": "1048576001"}, {"storage": "1000Mi"})


def test_a_diff_shows_three_lines_around_a_change() -> None:
    assert diff("NFSVolumeSource", {"server": "a", "path": "/p"}, {"server": "b", "path": "/p"}) == (
        '@@ -1,5 +1,5 @@\n {\n- "Server": "a",\n+ "Server": "b",\n  "Path": "/p",\n  "ReadOnly": false\n }\n'
    )
