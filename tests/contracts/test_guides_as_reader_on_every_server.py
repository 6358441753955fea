"""Commands on live clusters that guides show work with the account `tonnage-reader` alone, and miss nothing."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from support.api_servers import ServerApi
from support.http import ApiClient
from tonnage.objects.codec import resource_of
from tonnage.objects.core_v1 import Event
from tonnage.objects.meta import Object
from tonnage.roles import documents_of
from tonnage.scheduling.engine.event_handlers import READ_KINDS
from tonnage.whatif.workloads import NOT_READ_BY_DECISIONS
from tonnage_command import tonnage

ROOT = Path(__file__).parents[2]
GUIDES = [ROOT / "README.md", ROOT / "docs" / "whatif.md", ROOT / "docs" / "tutorial.md"]
GUIDES += sorted((ROOT / "docs" / "guides").glob("*.md"))
READ = "explain|fit|drain-preview|doctor|shadow|dashboard|status|top"
SHOWN = re.compile(rf"^(?:\$ )?(?:\./)?tonnage ((?:{READ})\b.*)$", re.MULTILINE)
NAMED = {"NS/NAME": "{ns}/db-0", "NODE…": "{ns}", "FILE": "{file}", "NODE": "{ns}"}
"""What stands in guides for something of the reader's own cluster."""
REFUSED = re.compile(r"forbidden|may not|cannot be (listed|watched|read)|kind-not-listed", re.IGNORECASE)


def shown_commands() -> set[str]:
    """Each command once, with what guides call things replaced by what this cluster has."""
    found = set()
    for guide in GUIDES:
        for line in SHOWN.findall(guide.read_text("utf-8")):
            line = re.split(r"\s{2,}|\s#|\s[|>&]|\\$", line)[0].replace("[", "").replace("]", "")
            if "--kubeconfig" not in line or "-f " in line:  # on files, or of a cluster that is found by its folder
                continue
            line = re.sub(r"~/\w+/kubeconfig", "FILE", line)
            line = re.sub(r"--pod \S+", "--pod NS/NAME", line)
            line = re.sub(r"--workload \S+", "--workload StatefulSet/NS/NAME", line)
            line = re.sub(r"\bnode-\d+\b", "NODE", line)
            found.add(re.sub(r"--for \S+", "--for 1s", line))
    return found


COMMANDS = sorted(shown_commands())


@pytest.fixture
def cluster(api: ServerApi, ns: str, tmp_path: Path) -> tuple[str, Path]:
    """A node, a StatefulSet and its pending pod, all of this name; and the kubeconfig of `tonnage-reader`."""
    labels = {"app": ns}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"serviceName": "db", "replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    api.create("/api/v1/nodes", {"metadata": {"name": ns}})
    api.create(f"/apis/apps/v1/namespaces/{ns}/statefulsets", {"metadata": {"name": "db-0"}, "spec": spec})
    api.create(
        f"/api/v1/namespaces/{ns}/pods", {"metadata": {"name": "db-0", "labels": labels}, "spec": template["spec"]}
    )
    for doc in documents_of("reader", namespace=ns, prefix=f"{ns}:"):
        api.create(path_of(doc), doc)
    account = f"/api/v1/namespaces/{ns}/serviceaccounts/tonnage-reader/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = api.post(account, asked).body["status"]["token"]
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(kubeconfig(api.url, token)))
    return ns, file


def path_of(doc: dict[str, Any]) -> str:
    if doc["kind"] == "ServiceAccount":
        return f"/api/v1/namespaces/{doc['metadata']['namespace']}/serviceaccounts"
    return f"/apis/rbac.authorization.k8s.io/v1/{doc['kind'].lower()}s"


def kubeconfig(url: str, token: str) -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }


def test_guides_show_commands_on_live_clusters():
    assert {line.split()[0] for line in COMMANDS} >= {
        "explain",
        "fit",
        "drain-preview",
        "doctor",
        "shadow",
        "dashboard",
        "top",
    }


def test_the_reader_may_do_what_guides_show(cluster: tuple[str, Path]):
    ns, file = cluster
    for line in COMMANDS:
        if line.split()[0] in ("dashboard", "top"):  # they follow the same cluster in the same way: below
            continue
        line = line.replace("StatefulSet/NS/NAME", f"StatefulSet/{ns}/db-0")
        for word, own in NAMED.items():
            line = re.sub(rf"(?<![\w/]){re.escape(word)}", own.format(ns=ns, file=file), line)
        done = tonnage(*shlex.split(line))
        assert done.returncode in (0, 1 if line.startswith("status") else 0, 3, 4, 5), f"{line}\n{done.stderr}"
        assert not any(each.startswith("error:") for each in done.stderr.splitlines()), f"{line}\n{done.stderr}"
        assert not REFUSED.search(done.stderr), f"{line}\n{done.stderr}"
        assert "kind-not-listed" not in done.stdout, line


def test_the_dashboard_follows_everything_as_the_reader(cluster: tuple[str, Path]):
    ns, file = cluster
    command = [sys.executable, "-m", "tonnage", "dashboard", "--kubeconfig", str(file), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        address, _, token = running.stdout.readline().split()[1].partition("#token=")
        headers = {"Authorization": f"Bearer {token}", "X-Tonnage-Dashboard": "1"}
        with urllib.request.urlopen(urllib.request.Request(f"{address}api/v1/state", headers=headers)) as answer:
            state = json.loads(answer.read())
        running.terminate()
    assert f'"{ns}"' in json.dumps(state)
    refused = [str(each) for each in state.get("notices", {}).values() if REFUSED.search(str(each))]
    assert refused == []


def test_the_reader_may_follow_every_kind_that_dashboard_and_top_follow(api: ServerApi, cluster: tuple[str, Path]):
    token = json.loads(cluster[1].read_text())["users"][0]["user"]["token"]
    reader = ApiClient(api.url, token)
    kinds: list[type[Object]] = [*(kind.cls for kind in READ_KINDS), *NOT_READ_BY_DECISIONS, Event]
    followed = [resource_of(cls) for cls in kinds]
    refused = []
    for each in followed:
        for verb in ("list", "watch"):
            asked = {"verb": verb, "group": each.group, "resource": each.plural}
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
            answer = reader.post(
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                {**review, "spec": {"resourceAttributes": asked}},
            )
            if not answer.body["status"]["allowed"]:
                refused.append(f"{verb} {each.plural}")
    assert len(followed) > 15 and refused == []
