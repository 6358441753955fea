"""Every contract test runs over each implementation: ours always, Kubernetes' own where its binaries are at hand.

KUBEBUILDER_ASSETS=/path/to/folder pytest tests/contracts      with kube-apiserver and etcd in that folder
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.api_servers import ServerApi, embedded, kube_apiserver

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder of Kubernetes' own binaries."""
    folder = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not folder:
        pytest.skip("KUBEBUILDER_ASSETS does not name a folder with kube-apiserver and etcd")
    missing = [name for name in ("kube-apiserver", "etcd") if not (Path(folder) / name).exists()]
    if missing:
        pytest.skip(f"KUBEBUILDER_ASSETS={folder} has no {' and no '.join(missing)}")
    return Path(folder)


@pytest.fixture(scope="session", params=["embedded", pytest.param("kube-apiserver", marks=pytest.mark.envtest)])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerApi]:
    """One server for all tests; each keeps to a namespace or to names of its own."""
    if request.param == "kube-apiserver":
        starting = kube_apiserver(tmp_path_factory.mktemp("kube"), request.getfixturevalue("assets"))
    else:
        starting = embedded(tmp_path_factory.mktemp("embedded"))
    with starting as server:
        yield server


@pytest.fixture
def ns(api: ServerApi) -> str:
    """The name of a fresh namespace; also good as a name nobody else has, for what is in none."""
    name = f"contract-{os.getpid()}-{next(NUMBERS)}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture
def maps(ns: str) -> str:
    """The path of the ConfigMaps in the fresh namespace: the simplest of kinds."""
    return f"/api/v1/namespaces/{ns}/configmaps"


@pytest.fixture
def pods(ns: str) -> str:
    """The path of the Pods in the fresh namespace."""
    return f"/api/v1/namespaces/{ns}/pods"
