"""What each namespace has, and when it is put right."""

from __future__ import annotations

from typing import Any

from tonnage.controllers.namespaces import correction, root_ca, service_account
from tonnage.objects.codec import convert
from tonnage.objects.core_v1 import ConfigMap, ServiceAccount

CA = b"-----BEGIN CERTIFICATE-----\n"


def config_map(**changes: Any) -> ConfigMap:
    doc = root_ca("default", CA)
    doc["metadata"] |= {"uid": "u1", "resourceVersion": "7"}
    return convert(ConfigMap, {**doc, **changes})


def test_the_authority_of_the_server_is_published_under_its_name() -> None:
    doc = root_ca("shop", CA)
    assert (doc["metadata"]["namespace"], doc["metadata"]["name"]) == ("shop", "kube-root-ca.crt")
    assert doc["data"] == {"ca.crt": CA.decode()}


def test_what_is_as_it_should_be_is_left_alone() -> None:
    assert correction(config_map(), root_ca("default", CA)) is None


def test_data_that_somebody_changed_is_put_right_and_what_was_added_goes() -> None:
    found = config_map(data={"ca.crt": "mine", "more": "x"})
    patch = correction(found, root_ca("default", CA))
    assert patch is not None and patch["data"] == {"ca.crt": CA.decode(), "more": None}
    assert (patch["metadata"]["uid"], patch["metadata"]["resourceVersion"]) == ("u1", "7")


def test_a_description_that_was_taken_away_comes_back() -> None:
    bare = config_map(metadata={"name": "kube-root-ca.crt", "namespace": "default", "uid": "u1"})
    patch = correction(bare, root_ca("default", CA))
    assert patch is not None and "kubernetes.io/description" in patch["metadata"]["annotations"]


def test_a_service_account_has_nothing_to_put_right() -> None:
    found = convert(ServiceAccount, {**service_account("default"), "secrets": []})
    assert correction(found, service_account("default")) is None
