"""./tonnage: sets up once, and from then on becomes Python, wherever it is called from and however it is reached."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PYTHON = '#!/bin/sh\necho "$(pwd)" "$@"\n'
SET_UP = """#!/usr/bin/env bash
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
source "$here/scripts/venv-stamp.sh"
echo "set up" >&2
remember_set_up "$here" "$1"
"""


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a blank in its name, whose Python and set-up only say that they were called."""
    here = tmp_path.resolve() / "a checkout"
    executable(here / ".venv" / "bin" / "python", PYTHON)
    executable(here / "scripts" / "setup-venv", SET_UP)
    shutil.copy(ROOT / "scripts" / "venv-stamp.sh", here / "scripts")
    shutil.copy(ROOT / "tonnage", here)
    (here / "requirements.lock").write_text("click==8.0\n")
    assert run(here / "tonnage").stderr == "set up\n"
    return here


def run(program: Path | str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    words = [str(program), "fit", "two words"]
    return subprocess.run(
        words, cwd=cwd or ROOT, capture_output=True, text=True, check=True, timeout=60, env=os.environ | variables
    )


def becomes_python(done: subprocess.CompletedProcess[str], cwd: Path) -> bool:
    return (done.stdout, done.stderr) == (f"{cwd} -P -m tonnage fit two words\n", "")


def test_it_becomes_python_in_the_folder_it_is_called_from(checkout: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path.resolve()
    assert becomes_python(run(checkout / "tonnage", cwd=elsewhere), elsewhere)
    assert becomes_python(run("./tonnage", cwd=checkout), checkout)
    assert becomes_python(run("a checkout/tonnage", cwd=elsewhere), elsewhere)


def test_it_is_found_through_links_and_links_to_links(checkout: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path.resolve() / "bin"
    elsewhere.mkdir()
    (elsewhere / "tonnage").symlink_to("../a checkout/tonnage")
    (elsewhere / "t").symlink_to("tonnage")
    (tmp_path / "folder").symlink_to(checkout)
    assert becomes_python(run(elsewhere / "t", cwd=elsewhere), elsewhere)
    assert becomes_python(run("./t", cwd=elsewhere), elsewhere)
    assert becomes_python(run(tmp_path / "folder" / "tonnage", cwd=elsewhere), elsewhere)


def test_another_lock_sets_up_once_more_whatever_its_time(checkout: Path) -> None:
    lock = checkout / "requirements.lock"
    lock.write_text("click==9.0\n")
    assert run(checkout / "tonnage").stderr == "set up\n"
    assert becomes_python(run(checkout / "tonnage", cwd=checkout), checkout)


def test_a_checkout_that_was_moved_sets_up_once_more(checkout: Path) -> None:
    moved = checkout.rename(checkout.parent / "moved")
    assert run(moved / "tonnage").stderr == "set up\n"


def test_a_python_that_was_replaced_sets_up_once_more(checkout: Path) -> None:
    python = checkout / ".venv" / "bin" / "python"
    releases = checkout.parent / "usr"
    for release in ("python3.11", "python3.12"):
        executable(releases / release, PYTHON)
    (releases / "python3").symlink_to("python3.11")
    python.unlink()
    python.symlink_to(releases / "python3")
    (checkout / ".venv" / ".installed-requirements.lock").unlink()
    assert run(checkout / "tonnage").stderr == "set up\n"
    assert becomes_python(run(checkout / "tonnage", cwd=checkout), checkout)
    (releases / "python3").unlink()
    (releases / "python3").symlink_to("python3.12")
    assert run(checkout / "tonnage").stderr == "set up\n"


def test_a_checkout_that_cannot_be_written_runs_once_it_is_set_up(checkout: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in checkout.rglob("*")}
    folders = [checkout, checkout / ".venv", checkout / "scripts"]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert becomes_python(run(checkout / "tonnage", cwd=checkout), checkout)
        assert {path: path.stat().st_mtime_ns for path in checkout.rglob("*")} == before
    finally:
        for folder in folders:
            folder.chmod(0o755)


@pytest.mark.parametrize("word", ["./tonnage", "a checkout/tonnage", "link/tonnage"])
def test_what_a_shell_has_set_for_other_purposes_does_not_lead_it_astray(
    checkout: Path, tmp_path: Path, word: str
) -> None:
    elsewhere = tmp_path.resolve()
    (elsewhere / "link").symlink_to("a checkout")
    decoy = elsewhere / "decoy"
    (decoy / "a checkout").mkdir(parents=True)  # where CDPATH would lead
    (decoy / "link").mkdir()
    (elsewhere / "bash_env").write_text('cd() { builtin cd "$@" && echo somewhere else; }\nalias pwd=false\n')
    cwd = checkout if word.startswith("./") else elsewhere
    for variables in (
        {"CDPATH": str(decoy)},
        {"CDPATH": f".:{decoy}"},
        {"BASH_ENV": str(elsewhere / "bash_env")},
        {"BASH_FUNC_cd%%": '() { builtin cd "$@"; echo somewhere else; }'},
        {"PYTHONHOME": str(decoy), "PYTHONPATH": str(decoy), "PYTHONSTARTUP": str(decoy)},
        {"GREP_OPTIONS": "--color=always", "ENV": str(elsewhere / "bash_env")},
        {"SHELLOPTS": "noclobber:noglob"},
    ):
        assert becomes_python(run(word, cwd=cwd, **variables), cwd), variables


def test_pythons_paths_of_others_are_not_handed_on(checkout: Path) -> None:
    executable(checkout / ".venv" / "bin" / "python", '#!/bin/sh\necho "$PYTHONHOME$PYTHONPATH"\n')
    run(checkout / "tonnage")  # sets up once more
    assert run(checkout / "tonnage", PYTHONHOME="/opt/a", PYTHONPATH="/opt/b").stdout == "\n"
