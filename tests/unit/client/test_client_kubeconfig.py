"""Kubeconfigs of every kind, and every mistake in them, told with file, entry and remedy."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.pki import Authority
from tonnage.client.config import kubeconfig
from tonnage.client.config.connection import (
    ExecPlugin,
    Impersonation,
    KubeconfigCluster,
    KubeconfigUser,
    ServerConnection,
)
from tonnage.client.config.kubeconfig import load
from tonnage.client.errors import InvalidKubeconfig
from tonnage.errors import TonnageError

CA = Authority()
ADMIN = CA.sign("admin")


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def config(cluster: Any = None, user: Any = None, context: Any = None, **fields: Any) -> dict[str, Any]:
    """A kubeconfig with one of each, named c, u and x."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "current-context": "x",
        **fields,
    }


@pytest.fixture
def write(tmp_path: Path):
    def write(doc: Any, name: str = "config") -> Path:
        path = tmp_path / name
        path.write_text(doc if isinstance(doc, str) else yaml.safe_dump(doc))
        return path

    return write


# -- what is read -----------------------------------------------------------------------------------------------------


def test_a_token_and_a_ca_are_read(write):
    path = write(config({"certificate-authority-data": b64(CA.pem)}, {"token": "secret"}, {"namespace": "shop"}))
    assert load(path) == ServerConnection(
        KubeconfigCluster("https://10.0.0.1:6443", ca_pem=CA.pem), KubeconfigUser(token="secret"), namespace="shop"
    )


def test_secrets_are_not_shown(write):
    user = {"token": "very-secret", "client-certificate-data": b64(ADMIN.certificate)}
    plugin = {
        "command": "p",
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "env": [{"name": "A", "value": "shh"}],
    }
    connection = load(write(config(user={**user, "client-key-data": b64(ADMIN.key), "exec": plugin})))
    shown = repr(connection)
    assert "very-secret" not in shown and "PRIVATE" not in shown and "shh" not in shown


def test_a_context_can_be_chosen(write):
    doc = config(user={"token": "one"})
    doc["users"].append({"name": "other", "user": {"token": "two"}})
    doc["contexts"].append({"name": "z", "context": {"cluster": "c", "user": "other"}})
    path = write(doc)
    assert (load(path).user.token, load(path, context="z").user.token) == ("one", "two")


def test_only_what_the_context_uses_is_judged(write):
    doc = config(user={"token": "t"})
    doc["users"].append({"name": "broken", "user": {"auth-provider": {"name": "gcp"}}})
    doc["clusters"].append({"name": "broken", "cluster": {"proxy-url": "http://proxy"}})
    assert load(write(doc)).user.token == "t"


def test_files_are_relative_to_the_kubeconfig(write, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    (tmp_path / "pki").mkdir()
    for name, content in {
        "ca.crt": CA.pem,
        "tls.crt": ADMIN.certificate,
        "tls.key": ADMIN.key,
        "token": b"from-file",
    }.items():
        (tmp_path / "pki" / name).write_bytes(content)
    user = {"client-certificate": "pki/tls.crt", "client-key": "pki/tls.key", "tokenFile": "pki/token"}
    connection = load(write(config({"certificate-authority": "pki/ca.crt"}, user)))
    pki = tmp_path / "pki"
    assert connection.cluster.ca_pem == CA.pem
    assert connection.user == KubeconfigUser(
        token_file=pki / "token", certificate_file=pki / "tls.crt", key_file=pki / "tls.key"
    )


def test_data_wins_over_files(write):
    cluster = {"certificate-authority": "/nowhere", "certificate-authority-data": b64(CA.pem)}
    user = {
        "client-certificate": "/nowhere",
        "client-certificate-data": b64(ADMIN.certificate),
        "client-key": "/nowhere",
        "client-key-data": b64(ADMIN.key),
    }
    connection = load(write(config(cluster, user)))
    assert connection.cluster.ca_pem == CA.pem
    assert connection.user == KubeconfigUser(certificate_pem=ADMIN.certificate, key_pem=ADMIN.key)


def test_the_rest_of_a_cluster_is_read(write):
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    cluster = {
        "server": "https://rancher.example/k8s/clusters/c-1/",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "kubernetes",
        "disable-compression": True,
        "extensions": [{"name": "other", "extension": 1}, extension],
    }
    assert load(write(config(cluster))).cluster == KubeconfigCluster(
        "https://rancher.example/k8s/clusters/c-1",
        skip_tls_verify=True,
        tls_server_name="kubernetes",
        compress=False,
        exec_config={"audience": "x"},
    )


def test_basic_and_impersonation_are_read(write):
    user = {"username": "me", "password": "pw", "as": "boss", "as-uid": "7", "as-groups": ["g1", "g2"]}
    assert load(write(config(user={**user, "as-user-extra": {"scopes": ["a", "b"]}}))).user == KubeconfigUser(
        username="me",
        password="pw",
        impersonation=Impersonation("boss", "7", ("g1", "g2"), {"scopes": ("a", "b")}),
    )


def test_an_exec_plugin_is_read_and_nulls_mean_nothing(write, tmp_path):
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "bin/plugin",
        "args": None,
        "env": [{"name": "AWS_PROFILE", "value": "prod"}],
        "installHint": "brew install plugin",
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    assert load(write(config(user={"exec": plugin}))).user.exec == ExecPlugin(
        command=str(tmp_path / "bin" / "plugin"),
        api_version="client.authentication.k8s.io/v1",
        env={"AWS_PROFILE": "prod"},
        install_hint="brew install plugin",
        provide_cluster_info=True,
        interactive_mode="Never",
    )
    beta = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "on-path", "env": None}
    read = load(write(config(user={"exec": beta}))).user.exec
    assert (read.command, read.interactive_mode) == ("on-path", "IfAvailable")


def test_a_context_without_a_user_is_nobody(write):
    assert load(write(config(context={"user": ""}))).user == KubeconfigUser()


def test_of_several_files_the_first_to_name_something_wins(write):
    first = config(user={"token": "first"})
    del first["current-context"], first["contexts"]
    second = config({"server": "https://second:1"}, {"token": "second"})
    second["users"].append({"name": "only-here", "user": {"token": "third"}})
    second["contexts"].append({"name": "z", "context": {"cluster": "c", "user": "only-here"}})
    paths = [write(first, "first"), Path("/nowhere/at/all"), write(second, "second")]
    environ = {"KUBECONFIG": os.pathsep.join(map(str, ["", *paths]))}
    connection = load(environ=environ)
    assert (connection.cluster.server, connection.user.token) == ("https://10.0.0.1:6443", "first")
    assert load(environ=environ, context="z").user.token == "third"


def test_without_a_path_or_variable_it_is_the_one_in_the_home_folder(tmp_path):
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(yaml.safe_dump(config(user={"token": "home"})))
    assert load(environ={"HOME": str(tmp_path)}).user.token == "home"


# -- what is wrong ----------------------------------------------------------------------------------------------------


def test_no_kubeconfig_at_all(tmp_path):
    with pytest.raises(TonnageError) as caught:
        load(environ={"HOME": str(tmp_path)})
    assert caught.value.message == (
        f"no kubeconfig: {tmp_path}/.kube/config does not exist, and this program does not run in a pod"
    )
    assert caught.value.hint == "name one with --kubeconfig, or set $KUBECONFIG"
    with pytest.raises(TonnageError, match="no kubeconfig: /a, /b do not exist"):
        load(environ={"KUBECONFIG": "/a:/b"})


def test_a_named_file_must_be_there(tmp_path):
    with pytest.raises(InvalidKubeconfig) as caught:
        load(tmp_path / "none")
    assert caught.value.message == f"{tmp_path}/none: cannot be read: No such file or directory"
    assert caught.value.hint == "name a readable kubeconfig with --kubeconfig"


def test_the_named_context_must_be_there(write):
    path = write(config())
    with pytest.raises(InvalidKubeconfig) as caught:
        load(path, context="prod")
    assert (caught.value.message, caught.value.hint) == (
        f"{path}: contexts[prod]: there is no such context",
        "the file has x",
    )


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "p", "interactiveMode": "Never"}
NOT_PEM = b64(b"this is a letter")
MISTAKES: list[tuple[Any, str, str | None]] = [
    ("a: [", "is not YAML: line 2: did not find expected node content", None),
    ("just words", "is not a kubeconfig: expected a map, found a str", None),
    ({"kind": "Pod"}, 'kind: this is a "Pod"; a kubeconfig is of kind Config', None),
    ("", "current-context: is not set", "choose one with --context; the file has none"),
    (config(**{"current-context": ""}), "current-context: is not set", "choose one with --context; the file has x"),
    (config(**{"current-context": 7}), "current-context: expected a name, found 7", None),
    (config(users=[{"user": {}}]), "users[0]: expected an entry with a name", None),
    (config(users="many"), "users[0]: expected an entry with a name", None),
    (config(users=[{"name": "u"}, {"name": "u"}]), "users[u]: there are two of this name", "rename one"),
    (config(context={"cluster": "d"}), 'contexts[x].cluster: there is no cluster "d"', "the file has c"),
    (config(context={"cluster": ""}), "contexts[x].cluster: no cluster is named", "the file has c"),
    (config(context={"user": "v"}), 'contexts[x].user: there is no user "v"', "the file has u"),
    (config(context={"user": 7}), "contexts[x].user: Expected `str`, got `int`", None),
    (
        config({"server": "10.0.0.1:6443"}),
        'clusters[c].server: "10.0.0.1:6443" is not the URL of a server; write it like "https://10.0.0.1:6443"',
        None,
    ),
    (
        config({"proxy-url": "http://proxy:3128"}),
        'clusters[c].proxy-url: Tonnage speaks to the server directly and cannot go through "http://proxy:3128"',
        "remove proxy-url, or point server at a tunnel such as ssh -L",
    ),
    (
        config({"insecure-skip-tls-verify": True, "certificate-authority-data": b64(CA.pem)}),
        "clusters[c].insecure-skip-tls-verify: certificate-authority-data is set as well",
        "remove one of the two",
    ),
    (
        config({"certificate-authority": "/nowhere/ca.crt"}),
        "clusters[c].certificate-authority: cannot read /nowhere/ca.crt: No such file or directory",
        "name a readable file",
    ),
    (
        config({"certificate-authority-data": NOT_PEM}),
        "clusters[c].certificate-authority-data: this is not a certificate in PEM form (",
        None,
    ),
    (
        config({"certificate-authority-data": "%%%"}),
        "clusters[c].certificate-authority-data: Invalid base64 encoded string",
        None,
    ),
    (config(user={"token": 123}), "users[u].token: Expected `str`, got `int`", None),
    (
        config(user={"tokenFile": "/nowhere/token"}),
        "users[u].tokenFile: cannot read /nowhere/token: No such file or directory",
        "name a readable file",
    ),
    (
        config(user={"token": "t", "username": "me"}),
        "users[u]: there are a token and a username, and only one can be shown",
        "remove one of the two",
    ),
    (
        config(user={"as-groups": ["g"]}),
        "users[u].as: as-uid, as-groups and as-user-extra need a user to go with them",
        None,
    ),
    (
        config(user={"auth-provider": {"name": "oidc"}}),
        'users[u].auth-provider: "oidc" is not supported',
        "use the exec plugin that has taken its place, such as kubelogin or gke-gcloud-auth-plugin",
    ),
    (
        config(user={"client-certificate-data": b64(ADMIN.certificate)}),
        "users[u].client-key: a client certificate needs its key",
        "set client-key or client-key-data",
    ),
    (
        config(user={"client-certificate-data": NOT_PEM, "client-key-data": NOT_PEM}),
        "users[u].client-certificate: this is not a certificate with its key in PEM form (",
        None,
    ),
    (
        config(user={"client-certificate-data": b64(ADMIN.certificate), "client-key-data": b64(CA.sign("other").key)}),
        "users[u].client-certificate: this is not a certificate with its key in PEM form (",
        None,
    ),
    (config(user={"exec": {**EXEC, "command": ""}}), "users[u].exec.command: no command is named", None),
    (
        config(user={"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
        'users[u].exec.apiVersion: "client.authentication.k8s.io/v1alpha1" is not known',
        "use client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1; most plugins choose it by a flag "
        "or by their version",
    ),
    (
        config(user={"exec": {**EXEC, "interactiveMode": None}}),
        "users[u].exec.interactiveMode: is not set",
        "set it to Never, IfAvailable or Always",
    ),
    (
        config(user={"exec": {**EXEC, "interactiveMode": "Perhaps"}}),
        "users[u].exec.interactiveMode: Invalid enum value 'Perhaps'",
        None,
    ),
    (config(user={"exec": {**EXEC, "env": [{"name": ""}]}}), "users[u].exec.env[0].name: is empty", None),
    (config(user={"exec": {**EXEC, "args": "one two"}}), "users[u].exec.args: Expected `array`, got `str`", None),
]


@pytest.mark.parametrize(("doc", "told", "hint"), MISTAKES, ids=[told[:60] for _, told, _ in MISTAKES])
def test_a_mistake_is_told_with_file_entry_and_remedy(write, doc, told, hint):
    path = write(doc)
    with pytest.raises(InvalidKubeconfig) as caught:
        load(path)
    message = f"{path}: {told}"
    assert caught.value.message == message or (caught.value.message.startswith(message) and told.endswith(("(", "in")))
    assert caught.value.hint == hint


# -- in a pod ---------------------------------------------------------------------------------------------------------

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    for name, content in {"token": b"pod-token", "ca.crt": CA.pem, "namespace": b"shop\n"}.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_a_pod_finds_its_server_ca_token_and_namespace(account):
    assert kubeconfig.is_possible(IN_POD, folder=account)
    assert kubeconfig.load_in_cluster(IN_POD, folder=account) == ServerConnection(
        KubeconfigCluster("https://10.96.0.1:443", ca_pem=CA.pem),
        KubeconfigUser(token_file=account / "token"),
        namespace="shop",
    )
    ipv6 = {**IN_POD, "KUBERNETES_SERVICE_HOST": "fd00::1", "POD_NAMESPACE": "mine"}
    connection = kubeconfig.load_in_cluster(ipv6, folder=account)
    assert (connection.cluster.server, connection.namespace) == ("https://[fd00::1]:443", "mine")


def test_outside_of_a_pod_it_says_so(account):
    assert not kubeconfig.is_possible({}, folder=account)
    with pytest.raises(TonnageError) as caught:
        kubeconfig.load_in_cluster({}, folder=account)
    assert caught.value.message == (
        "not running in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set"
    )
    assert caught.value.hint == "name a kubeconfig with --kubeconfig, or set $KUBECONFIG"


def test_a_pod_without_a_token_or_with_a_broken_ca_says_so(account):
    (account / "ca.crt").write_text("a letter")
    with pytest.raises(InvalidKubeconfig, match=r"ca\.crt: this is not a certificate in PEM form \("):
        kubeconfig.load_in_cluster(IN_POD, folder=account)
    (account / "token").unlink()
    with pytest.raises(InvalidKubeconfig) as caught:
        kubeconfig.load_in_cluster(IN_POD, folder=account)
    assert caught.value.message == f"{account}/token: cannot be read: No such file or directory"
    assert caught.value.hint == (
        "does the pod have automountServiceAccountToken: false? name a kubeconfig with --kubeconfig"
    )
