"""The account a pod runs as: given, looked up, obeyed. Upstream's admission plugin ServiceAccount, on either server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from support.api_servers import ServerApi, embedded, kube_apiserver

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
ENFORCED = {"kubernetes.io/enforce-mountable-secrets": "true"}
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module", params=["embedded", pytest.param("kube-apiserver", marks=pytest.mark.envtest)])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerApi]:
    """A server with the plugin on; other contracts have Kubernetes' own without it, for nobody makes accounts there."""
    if request.param == "kube-apiserver":
        off = {"disable-admission-plugins": "TaintNodesByCondition,StorageObjectInUseProtection"}
        starting = kube_apiserver(tmp_path_factory.mktemp("kube"), request.getfixturevalue("assets"), flags=off)
    else:
        starting = embedded(tmp_path_factory.mktemp("embedded"))
    with starting as server:
        yield server


@pytest.fixture
def home(guarded: ServerApi) -> str:
    """The path of a fresh namespace with a `default` account, as a controller would make it."""
    path = f"/api/v1/namespaces/home-{next(NUMBERS)}"
    guarded.create("/api/v1/namespaces", {"metadata": {"name": path.rpartition("/")[2]}})
    account(guarded, path, "default")
    return path


def account(api: ServerApi, home: str, name: str, annotations: dict[str, str] | None = None, **fields: Any) -> None:
    metadata = {"name": name, "annotations": annotations or {}}
    api.create(f"{home}/serviceaccounts", {"metadata": metadata, **fields})


def pod(name: str, containers: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    spec.setdefault("automountServiceAccountToken", False)
    return {"metadata": {"name": name}, "spec": {"containers": containers or [{"name": "c", "image": "i"}], **spec}}


def refusal(api: ServerApi, home: str, doc: dict[str, Any]) -> str:
    reply = api.post(f"{home}/pods", doc)
    assert (reply.code, reply.reason) == (403, "Forbidden")
    assert reply["details"] == {"name": "p", "kind": "pods"}
    begins = 'pods "p" is forbidden: '
    assert reply.message.startswith(begins)
    return reply.message.removeprefix(begins)


def test_a_pod_runs_as_default_unless_it_says_otherwise_under_either_name(guarded: ServerApi, home: str) -> None:
    account(guarded, home, "db")
    cases: list[tuple[dict[str, Any], str]] = [({}, "default"), ({"serviceAccountName": "db"}, "db")]
    for i, (said, name) in enumerate([*cases, ({"serviceAccount": "db"}, "db")]):
        spec = guarded.create(f"{home}/pods", pod(f"p{i}", **said))["spec"]
        assert (spec["serviceAccountName"], spec["serviceAccount"]) == (name, name)


def test_the_account_is_nobodys_field(guarded: ServerApi, home: str) -> None:
    made = guarded.create(f"{home}/pods", pod("p"))
    assert all("f:serviceAccountName" not in str(entry) for entry in made.meta["managedFields"])


def test_a_pod_of_an_account_that_is_not_there_is_refused(guarded: ServerApi, home: str) -> None:
    ns = home.rpartition("/")[2]
    told = refusal(guarded, home, pod("p", serviceAccountName="nobody"))
    assert told == f'error looking up service account {ns}/nobody: serviceaccount "nobody" not found'
    assert refusal(guarded, home, pod("p", serviceAccount="nobody")) == told
    made_up = {**pod("p", serviceAccountName="nobody"), "metadata": {"generateName": "p-"}}
    reply = guarded.post(f"{home}/pods", made_up)
    assert (reply.code, reply.message.startswith('pods "p-')) == (403, True)


def test_it_is_looked_up_before_the_pod_is_judged(guarded: ServerApi, home: str) -> None:
    assert "error looking up" in refusal(guarded, home, pod("p", serviceAccountName="nobody", restartPolicy="Perhaps"))


def test_templates_name_accounts_that_may_come_later(guarded: ServerApi, home: str) -> None:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": pod("", serviceAccountName="later")["spec"]}
    path = home.replace("/api/v1", "/apis/apps/v1") + "/replicasets"
    spec = guarded.create(
        path, {"metadata": {"name": "r"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    )
    assert spec["spec"]["template"]["spec"]["serviceAccountName"] == "later"


def test_a_pod_without_pull_secrets_gets_its_accounts(guarded: ServerApi, home: str) -> None:
    account(guarded, home, "puller", imagePullSecrets=[{"name": "one"}, {"name": "two"}])
    spec = guarded.create(f"{home}/pods", pod("p", serviceAccountName="puller"))["spec"]
    assert spec["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    own = [{"name": "mine"}]
    spec = guarded.create(f"{home}/pods", pod("q", serviceAccountName="puller", imagePullSecrets=own))["spec"]
    assert spec["imagePullSecrets"] == own


def test_who_asks_for_a_token_finds_it_in_every_container(guarded: ServerApi, home: str) -> None:
    containers = [
        {"name": "a", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        {"name": "own", "image": "i", "volumeMounts": [{"name": "data", "mountPath": TOKEN_PATH}]},
    ]
    doc = pod(
        "p",
        containers,
        initContainers=[{"name": "first", "image": "i"}],
        volumes=[{"name": "data", "emptyDir": {}}],
        automountServiceAccountToken=True,
    )
    spec = guarded.create(f"{home}/pods", doc)["spec"]
    volume = spec["volumes"][-1]
    assert (len(spec["volumes"]), volume["name"][:16], len(volume["name"])) == (2, "kube-api-access-", 21)
    assert volume["projected"] == {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
        ],
        "defaultMode": 420,
    }
    mount = {"name": volume["name"], "readOnly": True, "mountPath": TOKEN_PATH}
    assert spec["initContainers"][0]["volumeMounts"] == [mount]
    assert spec["containers"][0]["volumeMounts"][1:] == [mount]
    assert spec["containers"][1]["volumeMounts"] == containers[1]["volumeMounts"]


def test_the_pods_word_on_tokens_counts_before_its_accounts(guarded: ServerApi, home: str) -> None:
    account(guarded, home, "yes", automountServiceAccountToken=True)
    account(guarded, home, "no", automountServiceAccountToken=False)
    for i, (name, said, is_mounted) in enumerate(
        [("yes", None, True), ("yes", False, False), ("no", None, False), ("no", True, True)]
    ):
        doc = pod(f"p{i}", serviceAccountName=name)
        del doc["spec"]["automountServiceAccountToken"]
        if said is not None:
            doc["spec"]["automountServiceAccountToken"] = said
        spec = guarded.create(f"{home}/pods", doc)["spec"]
        assert ("volumes" in spec, "volumeMounts" in spec["containers"][0]) == (is_mounted, is_mounted)


def test_a_volume_of_that_name_is_taken_for_the_token(guarded: ServerApi, home: str) -> None:
    volumes = [{"name": "kube-api-access-mine", "emptyDir": {}}]
    spec = guarded.create(f"{home}/pods", pod("p", volumes=volumes, automountServiceAccountToken=True))["spec"]
    assert spec["volumes"] == volumes
    assert spec["containers"][0]["volumeMounts"][0]["name"] == "kube-api-access-mine"


def _env(name: str) -> dict[str, Any]:
    return {"name": "E", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "other"}}]},
            'volume with secret.secretName="other" is not allowed because service account strict does not reference '
            "that secret",
        ),
        (
            {"initContainers": [{"name": "i", "image": "i", "env": [_env("mine"), _env("other")]}]},
            'init container i with envVar E referencing secret.secretName="other" is not allowed because service '
            "account strict does not reference that secret",
        ),
        (
            {"containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "other"}}]}]},
            'container c with envFrom referencing secret.secretName="other" is not allowed because service account '
            "strict does not reference that secret",
        ),
        (
            {"imagePullSecrets": [{"name": "pull"}, {"name": "other"}]},
            'imagePullSecrets[1].name="other" is not allowed because service account strict does not reference that '
            "imagePullSecret",
        ),
        ({"volumes": [{"name": "v", "secret": {"secretName": "mine"}}]}, ""),
    ],
)
def test_a_strict_account_lets_pods_have_its_own_secrets_alone(
    guarded: ServerApi, home: str, spec: dict[str, Any], told: str
) -> None:
    account(guarded, home, "strict", ENFORCED, secrets=[{"name": "mine"}], imagePullSecrets=[{"name": "pull"}])
    doc = pod("p", serviceAccountName="strict", **spec)
    if told:
        assert refusal(guarded, home, doc) == told
    else:
        assert guarded.post(f"{home}/pods", doc).code == 201


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"serviceAccountName": "default"}, "a mirror pod may not reference service accounts"),
        ({"imagePullSecrets": [{"name": "s"}]}, "a mirror pod may not reference secrets"),
        ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, "a mirror pod may not reference secrets"),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]},
            "a mirror pod may not reference secrets",
        ),
        (
            {"volumes": [{"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}]},
            "a mirror pod may not reference secrets",
        ),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
    ],
)
def test_a_mirror_pod_has_no_account_and_no_secrets(
    guarded: ServerApi, home: str, spec: dict[str, Any], told: str
) -> None:
    doc = pod("p", nodeName="n", **spec)
    doc["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert refusal(guarded, home, doc) == told


def test_a_mirror_pod_is_left_without_an_account(guarded: ServerApi, home: str) -> None:
    doc = pod("p", nodeName="n")
    doc["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert "serviceAccountName" not in guarded.create(f"{home}/pods", doc)["spec"]


def test_an_account_may_go_before_its_pods(guarded: ServerApi, home: str) -> None:
    account(guarded, home, "brief")
    guarded.create(f"{home}/pods", pod("p", serviceAccountName="brief"))
    guarded.delete(f"{home}/serviceaccounts/brief")
    assert guarded.patch(f"{home}/pods/p", {"metadata": {"labels": {"a": "b"}}}).code == 200
