"""The account of a new pod, where upstream's own answers (tests/contracts) do not say: nobody made the account."""

from __future__ import annotations

import pytest

from tonnage.documents.admission import MIRROR_ANNOTATION, TOKEN_PATH, Admission
from tonnage.errors import Forbidden
from tonnage.objects.document import Doc
from tonnage.objects.resources import BY_PLURAL, Resource

PODS = BY_PLURAL["", "pods"]


class Accounts:
    """Accounts of the namespace `shop`, and nothing else."""

    def __init__(self, *accounts: Doc) -> None:
        self._by_name = {each["metadata"]["name"]: each for each in accounts}

    def get(self, resource: Resource, name: str, namespace: str = "") -> Doc | None:
        is_asked = resource.kind == "ServiceAccount" and namespace == "shop"
        return self._by_name.get(name) if is_asked else None

    def list(self, resource: Resource, namespace: str = "") -> list[Doc]:
        return []


def pod(**spec: object) -> Doc:
    return {
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def admitted(doc: Doc, *accounts: Doc, is_whole: bool = True) -> Doc:
    admission = Admission(Accounts(*accounts), is_whole=is_whole, generate_name=lambda base: f"{base}12345")
    admission.mutate_create(PODS, doc)
    spec: Doc = doc["spec"]
    return spec


DEFAULT = {"metadata": {"name": "default", "namespace": "shop"}}


@pytest.mark.parametrize("accounts", [(), (DEFAULT,)])
@pytest.mark.parametrize("said", [{}, {"serviceAccountName": "default", "serviceAccount": "default"}])
def test_default_need_not_be_there(accounts: tuple[Doc, ...], said: dict[str, str]) -> None:
    spec = admitted(pod(**said), *accounts)
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")


def test_nobody_who_is_silent_on_tokens_gets_one() -> None:
    spec = admitted(pod(), DEFAULT)
    assert "volumes" not in spec
    assert "volumeMounts" not in spec["containers"][0]


def test_a_token_that_is_asked_for_is_mounted_at_upstreams_path() -> None:
    spec = admitted(pod(), {**DEFAULT, "automountServiceAccountToken": True})
    assert [each["name"] for each in spec["volumes"]] == ["kube-api-access-12345"]
    assert spec["containers"][0]["volumeMounts"] == [
        {"name": "kube-api-access-12345", "readOnly": True, "mountPath": TOKEN_PATH}
    ]


def test_an_account_of_another_namespace_is_not_there() -> None:
    doc = pod(serviceAccountName="db")
    doc["metadata"]["namespace"] = "elsewhere"
    with pytest.raises(Forbidden, match='error looking up service account elsewhere/db: serviceaccount "db" not found'):
        admitted(doc, {"metadata": {"name": "db", "namespace": "shop"}})


def test_manifests_may_name_accounts_that_they_do_not_hold() -> None:
    assert admitted(pod(serviceAccountName="db"), is_whole=False)["serviceAccountName"] == "db"
    assert admitted(pod(), is_whole=False)["serviceAccountName"] == "default"
    mirror = pod(serviceAccountName="db")
    mirror["metadata"]["annotations"] = {MIRROR_ANNOTATION: "x"}
    assert admitted(mirror, is_whole=False)["serviceAccountName"] == "db"
