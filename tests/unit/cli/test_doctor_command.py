"""`tonnage doctor`: its exit codes, its JSON, its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tonnage.cli.questions import doctor
from tonnage.whatif.doctor.facts import CATALOGUE

HEALTHY = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: d.example}
spec: {storageCapacity: true, attachRequired: false}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: n1}
spec: {drivers: [{name: d.example, nodeID: n1}]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: d.example
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: c, namespace: default}
storageClassName: fast
nodeTopology: {matchLabels: {kubernetes.io/hostname: n1}}
capacity: 10Gi
maximumVolumeSize: 10Gi
"""
WARNED = """
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: nobody}
provisioner: nobody.example
"""
BROKEN = """
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: empty}
provisioner: d.example
volumeBindingMode: WaitForFirstConsumer
"""
EXAMPLE = Path(__file__).parents[3] / "examples" / "16-doctor" / "dump" / "cluster.yaml"


def run(tmp_path: Path, text: str, *arguments: str) -> Result:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    return CliRunner().invoke(doctor, ["-f", str(file), *arguments])


@pytest.mark.parametrize(("text", "code"), [(HEALTHY, 0), (HEALTHY + WARNED, 4), (HEALTHY + WARNED + BROKEN, 5)])
def test_the_exit_code_is_that_of_the_worst_finding(tmp_path, text, code):
    for arguments in ((), ("-o", "json")):
        done = run(tmp_path, text, *arguments)
        assert done.exit_code == code, done.output


def test_the_answer_as_json_holds_what_is_promised(tmp_path):
    answer: dict[str, Any] = json.loads(run(tmp_path, HEALTHY + WARNED + BROKEN, "-o", "json").stdout)
    assert set(answer) == {"source", "summary", "findings", "drivers", "configuration", "disks"}
    for each in answer["findings"]:
        assert {"name", "severity", "object", "message", "remedy"} <= set(each)
        assert each["severity"] == CATALOGUE[each["name"]].severity
        assert all(isinstance(value, str) and value for value in each.values()), each
    severities = [each["severity"] for each in answer["findings"]]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert answer["summary"] == {name: severities.count(name) for name in ("error", "warning", "info")}
    assert answer["drivers"]["d.example"] == {
        "capacityObjects": 1,
        "layout": "node",
        "pools": 0,
        "provisioning": "unknown",
        "volumeRebuilding": False,
    }
    assert set(answer["configuration"]) == {"reservation", "legacyPools", "poolFit", "why", "file"}


def test_every_finding_has_its_remedy_on_the_page(tmp_path):
    answer = json.loads(run(tmp_path, EXAMPLE.read_text(), "-o", "json").stdout)
    page = run(tmp_path, EXAMPLE.read_text()).stdout
    for each in answer["findings"]:
        assert each["name"] in page
        assert each["remedy"] in page or each["remedy"] == "nothing to do"


def test_the_same_dump_gives_the_same_bytes(tmp_path):
    pages = {run(tmp_path, EXAMPLE.read_text(), "-o", "json").stdout for _ in range(2)}
    assert len(pages) == 1


def test_what_a_dump_says_cannot_write_on_the_terminal(tmp_path):
    hostile = json.dumps("\x1b[2J[red]\nerror: owned").replace("\\n", "\\n")
    attachment = f"""
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttachment
metadata: {{name: a, uid: u, resourceVersion: "1"}}
spec: {{attacher: d.example, nodeName: n1, source: {{persistentVolumeName: pv}}}}
status: {{attached: false, attachError: {{message: {hostile}}}}}
"""
    for arguments in ((), ("-o", "json")):
        done = run(tmp_path, HEALTHY + attachment, *arguments)
        assert "attach-refused" in done.stdout
        assert "\x1b" not in done.stdout and "\nerror: owned" not in done.stdout


def test_an_empty_cluster_is_no_failure(tmp_path):
    done = run(tmp_path, "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")
    assert done.exit_code == 0, done.output


def test_a_broken_file_is_an_error_of_its_own(tmp_path):
    done = run(tmp_path, "apiVersion: v1\nkind: Node\nmetadata: {name: [")
    assert done.exit_code == 1 and done.stdout == ""


def test_its_advice_is_printed_as_values_of_the_chart():
    done = CliRunner().invoke(doctor, ["-f", str(EXAMPLE), "-o", "helm-values"])
    values = yaml.safe_load(done.stdout)
    assert done.exit_code == 5  # what it finds is in its exit code
    assert values["scheduler"]["storageCapacity"] == {
        "reservation": "Ledger",
        "legacyPools": "Bounded",
        "poolFit": "Prefer",
    }
    assert values["pools"] == {"enabled": True, "source": "topolvm", "setCapacityGroups": True}


def test_where_nothing_is_published_the_advice_reserves_nothing(tmp_path: Path):
    (tmp_path / "cluster.yaml").write_text(HEALTHY.replace("storageCapacity: true", "storageCapacity: false"))
    values = yaml.safe_load(CliRunner().invoke(doctor, ["-f", str(tmp_path), "-o", "helm-values"]).stdout)
    assert values["scheduler"]["storageCapacity"]["reservation"] == "None" and "pools" not in values
