"""Guides for people who have a cluster are done on one: each block, and each command within a sentence that only looks.

The cluster is one of `tonnage up`, the same for all of them, begun as the guide to the dashboard says. Its nodes start
no image, so that what the chart installs is placed and ready and does nothing.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from console_blocks import ON_A_CLUSTER, ROOT, Command, Shell, commands_of, files_of, shell

from support.pki import Authority
from tonnage.scheduler import open_telemetry

GUIDES = ROOT / "docs" / "guides"

NOT_RUN = {
    "podman build --tag REGISTRY/tonnage:0.1.0 .": "fetches the image it begins with: test_containerfile.py replays it",
    "podman push REGISTRY/tonnage:0.1.0": "needs a registry",
    "kubectl --namespace tonnage-system get lease tonnage-scheduler": (
        "is made by the image that nodes here do not start: tests/e2e/test_from_nothing_to_a_pod.py starts it"
    ),
    "mv /etc/kubernetes/manifests/kube-scheduler.yaml /etc/kubernetes/kube-scheduler.yaml.kept": "kubeadm's own file",
}
"""Commands that need more than a machine alone, and why."""

ON_A_TERMINAL = "python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)' sh -c"

READERS_OWN = {
    r"^(tonnage top .*)": rf"{ON_A_TERMINAL} 'stty cols 80 rows 24; TERM=xterm \1' <<< q > screen",
    r"--state-dir DIR/driver": "--state-dir stopped",  # a copy: the driver of this cluster goes on
    r"\bNS\b": "database",
    r"\bNAME\b": "large",
    r"\bNODE\b": "node-1",
    r"\b(dashboard) --kube": r"\1 --port 0 --kube",
    r"\b(scheduler) --config": r"\1 --secure-port 0 --config",
    r" &$": " 2>> left-running.log &",
    r"--context lab": "--context $(kubectl config current-context)",
    r"--for 1h": "--for 1s",
    r"\bREGISTRY\b": "registry.example",
    r"\bPATH\b": ".",
    r"\bDIR\b": "cluster",
    r"\bFILE\b": "cluster/kubeconfig",
}
"""What stands in guides for something of the reader's."""

IN_A_RELEASE = ("dashboard.md", "migrate.md")
"""Guides for whom the chart is installed, and removed again."""

REMOVED = ("helm uninstall", "kubectl delete namespace")

ANSWERS = (0, 3, 4, 5)
"""Codes of commands that look: what they found, not that they failed."""

LARGE = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: large, namespace: database}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 600Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: database}
spec:
  containers: [{name: main, image: registry.example/large:1.0}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: large}}]
"""


@dataclass(frozen=True)
class Reader:
    """Somebody with a shell, a folder and a cluster that has a pod with a volume and one that fits nowhere."""

    shell: Shell
    folder: Path

    def programs_missing_for(self, commands: Iterable[Command]) -> list[str]:
        """Programs beside kubectl that these want and that are not here."""
        named = {word for each in commands for word in ("helm", "promtool") if each.text.startswith(f"{word} ")}
        return [word for word in sorted(named) if self.shell.ask(Command(0, f"command -v {word}", ""))[1] != 0]

    def check(self, file: str, text: str) -> None:
        """What reads a file that no command of its guide is told to read."""
        if "kind: KubeSchedulerConfiguration" in text:
            self.do(Command(0, f"tonnage scheduler --config {file} --write-config-to in-force.yaml", ""))
        elif "kind: TracingConfiguration" in text:
            assert open_telemetry.parse(text).ratio > 0
        elif "scrape_configs:" in text and shutil.which("promtool") is not None:
            # Some builds of promtool know no Kubernetes.
            self.do(Command(0, f"grep -v kubernetes_sd_configs {file} > plain-{file}", ""))
            self.do(Command(0, f"promtool check config --syntax-only plain-{file}", ""))

    def do(self, command: Command) -> None:
        command = replace(command, text=with_own(command.text))
        if not command.only_looks or command.shown or command.code:
            self.shell.run(command)
            return
        printed, code = self.shell.ask(command)
        refused = re.search(r"^(error: |Error from server)", printed, re.MULTILINE)
        is_answer = code in ANSWERS or (code == 1 and printed.strip() in ("", "no"))  # of grep and kubectl auth can-i
        assert is_answer and not refused, f"line {command.line}: {command.text}\nexit {code}, printed\n{printed}"


def with_own(text: str) -> str:
    for word, own in READERS_OWN.items():
        text = re.sub(word, own, text)
    return text


def said_commands(guide: Path) -> list[Command]:
    """Commands within sentences and tables that only look, and are whole."""
    text = re.sub(r"^ *```.*?^ *```$", "", guide.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    spans = (Command(0, span, "") for span in re.findall(r"`((?:kubectl|tonnage|promtool) [^`…]+)`", text))
    return [each for each in spans if each.only_looks and len(each.text.split()) > 2]


def told(guide: str, *beginnings: str) -> list[Command]:
    """The first command of a guide with each beginning."""
    return [next(each for each in commands_of(GUIDES / guide) if each.text.startswith(text)) for text in beginnings]


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="t")))
        running = stack.enter_context(shell(home))
        folder = home / "tonnage-checkout"
        (folder / "large.yaml").write_text(LARGE)
        (folder / "tls.crt").write_bytes((pair := Authority().sign("dashboard", "storage.example.com")).certificate)
        (folder / "tls.key").write_bytes(pair.key)
        (up,) = told("dashboard.md", "tonnage up ")
        running.run(replace(up, text=with_own(up.text.replace(" up ", " up --secure-port 0 "))))
        for line in (
            "UP=$!",
            "export KUBECONFIG=$PWD/cluster/kubeconfig",
            "kubectl apply -f examples/09-a-database-on-pools/ -f large.yaml",
            "kubectl -n database rollout status statefulset db",
            "kubectl create namespace my-driver",
            "mkdir -p ~/.zfunc ~/.config/fish/completions",
            "cp -r cluster/driver stopped",
        ):
            running.run(Command(0, line, ""))
        yield Reader(running, folder)


def test_every_block_of_commands_in_a_guide_is_one_that_is_run():
    begins = re.compile(
        r"^ *```\n *(?:\$ )?(?:\./)?(tonnage|kubectl|helm|podman|promtool|curl|make|mv|source|\w+=)\b", re.MULTILINE
    )
    written = {page.name: begins.findall(page.read_text("utf-8")) for page in GUIDES.glob("*.md")}
    assert {name: found for name, found in written.items() if found} == {}


def test_what_is_not_run_is_said_in_a_guide():
    said = {each.text for name in ON_A_CLUSTER for each in commands_of(GUIDES / name)}
    assert [text for text in NOT_RUN if text not in said] == []


@pytest.mark.slow
@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")
@pytest.mark.parametrize("name", ON_A_CLUSTER)
def test_a_guide_does_what_it_says_on_a_cluster(reader: Reader, name: str):
    commands = [each for each in commands_of(GUIDES / name) if each.text not in NOT_RUN and " up --" not in each.text]
    if missing := reader.programs_missing_for(commands):
        pytest.skip(f"not on the PATH: {', '.join(missing)}")
    for file, text in {**files_of(GUIDES / "beside-kube-scheduler.md"), **files_of(GUIDES / name)}.items():
        (reader.folder / file).write_text(with_own(text))
        reader.check(file, text)
    if name in IN_A_RELEASE:
        commands = [*told("install.md", "helm install"), *commands, *told("install.md", *REMOVED)]
    for command in [*commands, *said_commands(GUIDES / name)]:
        reader.do(command)
    reader.do(
        Command(0, "for pid in $(jobs -p); do [ $pid = $UP ] || { kill $pid; wait $pid; }; done 2> /dev/null; true", "")
    )
