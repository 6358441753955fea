"""Who a scheduler is asked as: a token goes over TLS alone, a password and impersonation nowhere but to the server."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import yaml

from tonnage.cli.cluster_options import ClusterQuestion
from tonnage.client.config.connection import KubeconfigUser
from tonnage.gates import Gates


@pytest.fixture
def question(tmp_path: Path):
    user = {"token": "t", "as": "mary"}
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    (tmp_path / "token").write_text("other")

    def of(url: str | None, token_file: Path | None = None) -> ClusterQuestion:
        return ClusterQuestion((), tmp_path / "kubeconfig", "", "", url, None, token_file, None, Gates())

    return of


def test_the_kubeconfigs_user_asks_over_https(question):
    assert question("https://10.0.0.2:10259").scheduler_user() == KubeconfigUser(token="t")


def test_nobody_asks_without_tls_nor_of_a_cluster_of_ours(question):
    assert question("http://10.0.0.2:10259").scheduler_user() == KubeconfigUser()
    assert question(None).scheduler_user() == KubeconfigUser()


def test_a_token_file_goes_before_the_kubeconfig_and_over_https_alone(question, tmp_path):
    file = tmp_path / "token"
    assert question("https://10.0.0.2:10259", file).scheduler_user() == KubeconfigUser(token_file=file)
    with pytest.raises(click.UsageError, match="over https alone"):
        question("http://10.0.0.2:10259", file).scheduler_user()


def test_in_the_cluster_it_is_searched_for_as_the_flags_say(question, tmp_path):
    file = tmp_path / "token"
    search = question(None, file).search
    assert (search.user, search.ca_pem) == (KubeconfigUser(token_file=file), b"")
    assert search.kubectl == f"kubectl --kubeconfig {tmp_path / 'kubeconfig'}"
    assert question(None).search.user == KubeconfigUser(token="t")
