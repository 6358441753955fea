"""The API servers that contract tests run over: `tonnage apiserver`, and Kubernetes' own on etcd.

    with embedded(folder) as api: ...
    with kube_apiserver(folder, assets) as api: ...        `assets` has kube-apiserver and etcd in it

Each is started in processes of its own, made ready, handed out as a client, and ended with the block.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from support.eventually import eventually
from support.http import ApiClient, free_port
from support.processes import start_cluster

_FORGETFUL = """
import asyncio, sys
from pathlib import Path
from tonnage.apiserver.server import ServerSettings, serve

async def main():
    async with serve(ServerSettings(data_dir=Path(sys.argv[1]), port=0, keep_revisions=3)) as server:
        print("ready", server.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


class ServerApi(ApiClient):
    """A client of one of the servers, over one connection that is kept. A test that has to can ask which it is."""

    def __init__(self, name: str, url: str, token: str) -> None:
        super().__init__(url, token, agent="contract/1", keep_alive=True)
        self.name = name

    @property
    def is_embedded(self) -> bool:
        return self.name == "embedded"


@contextmanager
def embedded(folder: Path, *, is_forgetful: bool = False) -> Iterator[ServerApi]:
    """`tonnage apiserver` in a process of its own. A forgetful one remembers three revisions; no flag says that."""
    if not is_forgetful:
        cluster = start_cluster(folder)
        api = ServerApi("embedded", cluster.url, cluster.token)
        try:
            yield api
        finally:
            api.close()
            cluster.stop()
        return
    with (folder / "stderr.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _FORGETFUL, str(folder)], stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdout is not None
    with process.stdout, ended(process):
        line = process.stdout.readline()
        assert line.startswith("ready https://"), (folder / "stderr.log").read_text()
        api = ServerApi("embedded", line.split()[1], (folder / "token").read_text().strip())
        yield api
        api.close()


@contextmanager
def kube_apiserver(
    folder: Path, assets: Path, *, is_forgetful: bool = False, flags: Mapping[str, str] | None = None
) -> Iterator[ServerApi]:
    """Kubernetes' own server on etcd, both from the folder that envtest uses. A forgetful one remembers two seconds.

    Two of its admission plugins are off beside those envtest turns off, because they leave marks that only a controller
    takes away again: TaintNodesByCondition (a taint on new nodes) and StorageObjectInUseProtection (finalizers).
    `flags` are further ones, or other values of these.
    """
    etcd_port, port = free_port(), free_port()
    key_file, tokens = folder / "service-account.key", folder / "tokens.csv"
    key_file.write_bytes(private_key())
    tokens.write_text('contract-token,admin,admin,"system:masters"\n')
    client_url = f"http://127.0.0.1:{etcd_port}"
    etcd = [str(assets / "etcd"), "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync"]
    etcd += ["--listen-client-urls", client_url, "--advertise-client-urls", client_url]
    etcd += ["--listen-peer-urls", "http://127.0.0.1:0"]
    all_flags = {
        "etcd-servers": client_url,
        "cert-dir": str(folder / "certificates"),
        "bind-address": "127.0.0.1",
        "secure-port": str(port),
        "token-auth-file": str(tokens),
        "anonymous-auth": "false",
        "authorization-mode": "RBAC",
        "service-account-key-file": str(key_file),
        "service-account-signing-key-file": str(key_file),
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-cluster-ip-range": "10.0.0.0/24",
        "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection",
        # On in Tonnage, still off by default upstream.
        "feature-gates": "MutablePVNodeAffinity=true,VolumeLimitScaling=true",
    }
    if is_forgetful:
        all_flags["etcd-compaction-interval"] = "1s"
    all_flags |= flags or {}
    server = [str(assets / "kube-apiserver"), *(f"--{name}={value}" for name, value in all_flags.items())]
    with logged(etcd, folder / "etcd.log"), logged(server, folder / "kube-apiserver.log") as process:
        api = ServerApi("kube-apiserver", f"https://127.0.0.1:{port}", "contract-token")
        eventually(
            lambda: process.poll() is not None or is_ready(api),
            "kube-apiserver to be ready",
            details=lambda: (folder / "kube-apiserver.log").read_text()[-2000:],
        )
        assert process.poll() is None, (folder / "kube-apiserver.log").read_text()[-2000:]
        yield api
        api.close()


def is_ready(api: ServerApi) -> bool:
    try:
        return api.get("/readyz").code == 200
    except OSError:
        return False


@contextmanager
def logged(command: list[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True)
    with ended(process):
        yield process


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """End the process with the block, politely first."""
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def private_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
