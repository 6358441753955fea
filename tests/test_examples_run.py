"""Every example is applied to a fresh server, and says what its README says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tonnage_command import tonnage

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
ELIDED = "…\n"
"""A line of a README that stands for lines left out."""

SHOWN = [
    (str(readme.parent.name), command, output)
    for readme in sorted(EXAMPLES.glob("*/README.md"))
    for command, output in re.findall(
        r"^```\n\./tonnage ((?:explain|replay|fit|drain-preview|simulate|doctor) [^\n]+)\n```\n\n```\n(.+?)^```$",
        readme.read_text(),
        re.MULTILINE | re.DOTALL,
    )
]
"""(example, command, what its README shows right after it)."""


def test_the_readmes_of_the_examples_show_what_commands_print():
    assert {example for example, _, _ in SHOWN} >= {
        "02-explain",
        "03-replay",
        "04-joint-packing",
        "12-explain-what-is-not-there",
    }


@pytest.mark.parametrize(("example", "command", "output"), SHOWN)
def test_a_command_prints_what_its_readme_shows(example, command, output):
    done = tonnage(*shlex.split(command), cwd=ROOT)
    # What doctor finds is in its exit code.
    assert done.returncode in ((0, 4, 5) if command.startswith("doctor ") else (0,)), done.stderr
    *parts, last = output.split(ELIDED)
    printed = done.stdout
    for part in parts:  # the first from the start, each of the others somewhere after the one before
        head, found, printed = printed.partition(part)
        assert found and (part is not parts[0] or not head), f"{part!r} is not printed; this is:\n{done.stdout}"
    assert printed.endswith(last) if parts else printed == last


@pytest.mark.kubectl
def test_every_example_applies(cluster, kubectl):
    folders = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
    assert [folder for folder in folders if not (folder / "README.md").exists()] == []
    kubectl("apply", *(f"--filename={folder}" for folder in folders))


@pytest.mark.kubectl
def test_pools_shows_the_list_and_gives_the_claim_the_default_class(cluster, kubectl):
    kubectl("apply", "-f", str(EXAMPLES / "01-pools"))
    shown = kubectl(
        "get", "csistoragecapacity", "node-1-pools", "-n", "kube-system", "-o", "jsonpath={.availableCapacities}"
    )
    assert json.loads(shown) == ["100Gi", "100Gi", "100Gi"]
    assert kubectl("get", "pvc", "data", "-o", "jsonpath={.spec.storageClassName}") == "pools"
