"""The Containerfile: what can be seen by reading it, and its steps replayed in an empty folder.

There is no container runtime in a test. The steps of the build stage are shell and copies, and every path in them is
below /opt or /src: replayed with another folder for these, they make what the image gets.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from containerfile import Stage, read_stages
from rendered import CHART, ROOT

from tonnage import __version__

FILE = ROOT / "Containerfile"


@pytest.fixture(scope="module")
def stages() -> list[Stage]:
    return read_stages(FILE)[1]


def test_the_base_is_slim_pinned_and_from_no_named_registry():
    arguments, stages = read_stages(FILE)
    assert re.fullmatch(r"python:3\.1\d-slim-\w+@sha256:[0-9a-f]{64}", arguments["BASE"])
    assert [stage.base for stage in stages] == ["${BASE}", "${BASE}"]
    assert "latest" not in FILE.read_text()


def test_it_runs_as_a_numbered_user_that_is_not_root_and_as_the_pods_say(stages: list[Stage]):
    (user,) = stages[-1].of("USER")
    uid, gid = (int(each) for each in user.split(":"))
    assert uid > 0 and gid > 0
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for component in ("scheduler", "pools"):
        context = values[component]["podSecurityContext"]
        assert (context["runAsUser"], context["runAsGroup"]) == (uid, gid)
    assert stages[-1].of("ENTRYPOINT") == ['["tonnage"]']


def test_the_last_stage_builds_nothing(stages: list[Stage]):
    for step in stages[-1].of("RUN"):
        assert step.startswith("rm -rf ")
    assert stages[-1].of("COPY") == ["--from=build /opt/tonnage /opt/tonnage"]


def test_labels_name_version_licence_and_bill_of_materials(stages: list[Stage]):
    labels = dict(each.split("=", 1) for each in shlex.split(stages[-1].of("LABEL")[0]))
    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert labels["dev.tonnage.sbom"] in "".join(stages[0].of("RUN"))
    base = [labels[f"org.opencontainers.image.base.{part}"] for part in ("name", "digest")]
    assert "@".join(base) == read_stages(FILE)[0]["BASE"]


def test_no_secret_and_no_whole_folder_goes_in(stages: list[Stage]):
    text = FILE.read_text().lower()
    for word in ("password", "secret", "token=", "ssh", "http://", "https://"):
        assert word not in text
    copied = {word for step in stages[0].of("COPY") for word in step.split()[:-1]}
    assert "." not in copied
    allowed = {line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line.startswith("!")}
    assert copied - {"${LOCK}"} == allowed
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()


@pytest.mark.slow
def test_its_steps_make_a_tonnage_that_runs(stages: list[Stage], tmp_path: Path):
    context, root = tmp_path / "context", tmp_path / "root"
    replay(stages[0], root)
    shutil.rmtree(root / "src")  # the last stage has none of it
    shutil.rmtree(root / "opt" / "build")
    home = root / "opt" / "tonnage"
    context.mkdir()
    told = subprocess.run(
        [home / "bin" / "tonnage", "version", "-o", "json"], capture_output=True, text=True, check=True, cwd=context
    )
    assert json.loads(told.stdout)["tonnage"] == __version__
    bill = json.loads((home / "share" / "sbom" / "tonnage.cdx.json").read_text())
    assert {"aiohttp", "numpy", "grpcio"} <= {each["name"] for each in bill["components"]}
    (site,) = home.glob("lib/python3*/site-packages")
    assert not list(site.glob("pip*")) and not list(site.glob("hatchling*"))
    assert not list(site.rglob("direct_url.json"))
    # Compiled, and not by time: what lies on a read-only file system is used as it is.
    (compiled,) = (site / "tonnage" / "__pycache__").glob("__init__.*.pyc")
    assert compiled.read_bytes()[4:8] == b"\x01\x00\x00\x00"
    assert {path.lstat().st_mtime for path in home.rglob("*")} == {315532800.0}


def replay(stage: Stage, root: Path) -> None:
    """Do what a stage says, with `root` before every path of the image."""
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(root)}
    environment |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP"))}
    here = root

    def inside(text: str) -> str:
        return re.sub(r"(?<![\w.])/(opt|src)\b", lambda found: f"{root}{found[0]}", text)

    for word, rest in stage.steps:
        if word == "ARG":
            name, _, value = rest.partition("=")
            environment[name] = value
        elif word == "ENV":
            for pair in shlex.split(rest):
                name, _, value = pair.partition("=")
                environment[name] = re.sub(r"\$\{(\w+)\}", lambda found: environment[found[1]], value)
        elif word == "WORKDIR":
            here = Path(inside(rest))
            here.mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            *sources, target = rest.replace("${LOCK}", environment["LOCK"]).split()
            for source in sources:
                copy(ROOT / source, here / target)
        else:
            assert word == "RUN", word
            done = subprocess.run(
                ["sh", "-e", "-c", inside(rest)], cwd=here, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{rest}\n{done.stdout}{done.stderr}"


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    else:
        shutil.copy(source, target / source.name if target.is_dir() else target)
