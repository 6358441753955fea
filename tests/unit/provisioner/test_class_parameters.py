"""What a driver gets of a class's parameters; cases named as in external-provisioner's controller_test.go."""

from __future__ import annotations

import pytest

from tonnage.objects.core_v1 import SecretReference
from tonnage.provisioner.volumes.create_volume import (
    PREFIX,
    InvalidParameters,
    SecretKind,
    for_driver,
    fstype_of,
    resolved,
    secret_reference,
)
from tonnage.testing.storage_builders import claim

NAME, NAMESPACE = f"{PREFIX}provisioner-secret-name", f"{PREFIX}provisioner-secret-namespace"
OLD_NAME, OLD_NAMESPACE = "csiProvisionerSecretName", "csiProvisionerSecretNamespace"
PARTLY = (
    "failed to get name and namespace template from params: either name and namespace for Provisioner secrets "
    "specified, Both must be specified"
)
TWICE = (
    "failed to get name and namespace template from params: Provisioner secrets specified in parameters with both "
    '"csi" and "csi.storage.k8s.io/" keys'
)


@pytest.mark.parametrize(
    ("name", "given", "left"),
    [
        ("no prefix", {"csiFoo": "bar", "bim": "baz"}, {"csiFoo": "bar", "bim": "baz"}),
        ("one prefixed", {f"{PREFIX}controller-publish-secret-name": "bar", "bim": "baz"}, {"bim": "baz"}),
        ("prefix in value", {"foo": f"{PREFIX}fstype"}, {"foo": f"{PREFIX}fstype"}),
        ("all known deprecated params not stripped", {"fstype": "x", OLD_NAME: "y"}, {"fstype": "x", OLD_NAME: "y"}),
        ("empty", {}, {}),
    ],
)
def test_strip_prefixed_csi_params(name: str, given: dict[str, str], left: dict[str, str]) -> None:
    assert for_driver(given) == left, name


def test_all_known_prefixed_are_stripped() -> None:
    kinds = [
        "provisioner-",
        "controller-publish-",
        "node-stage-",
        "node-publish-",
        "controller-expand-",
        "node-expand-",
    ]
    keys = [
        f"{PREFIX}{kind}secret-{part}" for kind in ["", *kinds, "controller-modify-"] for part in ("name", "namespace")
    ]
    assert for_driver(dict.fromkeys([f"{PREFIX}fstype", *keys], "csiBar")) == {}


def test_an_unknown_prefixed_key_is_refused() -> None:
    with pytest.raises(InvalidParameters) as caught:
        for_driver({f"{PREFIX}bim": "baz"})
    assert caught.value.message == (
        'failed to strip CSI Parameters of prefixed keys: found unknown parameter key "csi.storage.k8s.io/bim" with '
        "reserved namespace csi.storage.k8s.io/"
    )


@pytest.mark.parametrize(
    ("name", "given", "error"),
    [
        ("[deprecated] name, no namespace", {OLD_NAME: "foo"}, PARTLY),
        ("name, no namespace", {NAME: "foo"}, PARTLY),
        ("namespace, no name", {NAMESPACE: "foo"}, PARTLY),
        ("deprecated and new both", {NAME: "a", NAMESPACE: "b", OLD_NAME: "a", OLD_NAMESPACE: "b"}, TWICE),
        ("deprecated and new names", {NAME: "a", OLD_NAME: "a"}, TWICE),
        (
            "empty err",
            {NAME: "", NAMESPACE: ""},
            "failed to get name and namespace template from params: Provisioner secrets specified in parameters but "
            "value of either namespace or name is empty",
        ),
        ("simple - invalid name", {NAME: "bad name", NAMESPACE: "ns"}, '"bad name" is not a valid secret name'),
        ("simple - invalid namespace", {NAME: "a", NAMESPACE: "bad ns"}, '"bad ns" is not a valid namespace name'),
        (
            "template - invalid namespace tokens",
            {NAME: "static", NAMESPACE: "mynamespace${bar}"},
            'error resolving value "mynamespace${bar}": invalid tokens: ["bar"]',
        ),
        (
            "template - namespace annotations are not accessible",
            {NAME: "static", NAMESPACE: "${pvc.annotations['akey']}"},
            "error resolving value \"${pvc.annotations['akey']}\": invalid tokens: [\"pvc.annotations['akey']\"]",
        ),
        (
            "template - result is no name",
            {NAME: "${pvc.name}_", NAMESPACE: "ns"},
            '"${pvc.name}_" resolved to "name_" which is not a valid secret name',
        ),
    ],
)
def test_get_secret_reference_refuses(name: str, given: dict[str, str], error: str) -> None:
    with pytest.raises(InvalidParameters) as caught:
        secret_reference(SecretKind.PROVISIONER, given, "pv", claim("name", namespace="ns"))
    assert caught.value.message == error, name


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("no params", {}, None),
        ("[deprecated] simple - valid", {OLD_NAME: "name", OLD_NAMESPACE: "ns"}, ("name", "ns")),
        ("deprecated and new mixed", {NAME: "name", OLD_NAMESPACE: "ns"}, ("name", "ns")),
        ("simple - valid", {NAME: "name", NAMESPACE: "ns"}, ("name", "ns")),
        (
            "template - valid",
            {
                NAME: "s-${pv.name}-${pvc.namespace}-${pvc.name}-${pvc.annotations['akey']}",
                NAMESPACE: "s-${pvc.namespace}",
            },
            ("s-pv-ns-name-avalue", "s-ns"),
        ),
        ("default secret", {f"{PREFIX}secret-name": "d", f"{PREFIX}secret-namespace": "ns"}, ("d", "ns")),
    ],
)
def test_get_secret_reference(name: str, given: dict[str, str], expected: tuple[str, str] | None) -> None:
    asking = claim("name", namespace="ns", metadata={"annotations": {"akey": "avalue"}})
    found = secret_reference(SecretKind.PROVISIONER, given, "pv", asking)
    assert found == (None if expected is None else SecretReference(name=expected[0], namespace=expected[1])), name


def test_each_kind_of_call_has_keys_of_its_own() -> None:
    given = {f"{PREFIX}node-publish-secret-name": "a", f"{PREFIX}node-publish-secret-namespace": "b"}
    asking = claim("name")
    assert secret_reference(SecretKind.NODE_PUBLISH, given, "pv", asking) == SecretReference(name="a", namespace="b")
    assert secret_reference(SecretKind.PROVISIONER, given, "pv", asking) is None


@pytest.mark.parametrize(
    ("template", "text"),
    [("a$", "a$"), ("a${}b", "ab"), ("$word.x", "W.x"), ("${word}x", "Wx"), ("a.b", "a.b")],
)
def test_templates_read_as_gos_expand_reads_them(template: str, text: str) -> None:
    assert resolved(template, {"word": "W"}) == text


def test_the_file_system_has_two_keys_and_a_default() -> None:
    assert fstype_of({f"{PREFIX}fstype": "xfs"}, "ext4") == "xfs"
    assert fstype_of({"FsType": "xfs"}, "ext4") == "xfs"
    assert (fstype_of({}, "ext4"), fstype_of({}, "")) == ("ext4", "")
    with pytest.raises(InvalidParameters) as caught:
        fstype_of({"fstype": "xfs", f"{PREFIX}fstype": "xfs"}, "")
    assert caught.value.message == (
        'fstype specified in parameters with both "fstype" and "csi.storage.k8s.io/fstype" keys'
    )
