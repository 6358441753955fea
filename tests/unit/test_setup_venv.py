"""scripts/setup-venv: what failed is not remembered as done, what was begun is not what it was, and two take turns."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LOCK, DEVELOPMENT = "requirements.lock", "requirements-dev.lock"
PYTHON = f"""#!/usr/bin/env bash
# A Python that makes environments whose Python is itself, and whose pip writes down what it was asked for.
here="$(dirname "$0")"
case "$1 $2" in
  "-c import sysconfig"*) echo "$here" ;;
  "-c "*) exec {sys.executable} "$@" ;;
  "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  "-m pip")
    if [ "$3" = install ]; then
      echo "${{@: -1}}" >> "$INSTALLED"
      [ ! -e "$NO_INDEX" ]
    fi
    ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    here = tmp_path.resolve() / "a checkout"
    (here / "scripts").mkdir(parents=True)
    for name in ("setup-venv", "venv-stamp.sh"):
        shutil.copy(ROOT / "scripts" / name, here / "scripts")
    (here / LOCK).write_text("click==8.0\n")
    (here / DEVELOPMENT).write_text("click==8.0\npytest==9.0\n")
    python = here.parent / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(PYTHON)
    python.chmod(0o755)
    return here


def begin(checkout: Path, lock: str = LOCK, **variables: str) -> subprocess.Popen[str]:
    root = checkout.parent
    env = (
        os.environ
        | variables
        | {
            "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
            "INSTALLED": str(root / "installed"),
            "NO_INDEX": str(root / "no-index"),
        }
    )
    words = ["scripts/setup-venv", lock]
    return subprocess.Popen(words, env=env, cwd=checkout, stderr=subprocess.PIPE, text=True)


def set_up(checkout: Path, lock: str = LOCK) -> tuple[int, str]:
    with begin(checkout, lock) as running:
        _, told = running.communicate(timeout=60)
        return running.returncode, told


def installed(checkout: Path) -> list[str]:
    return [Path(line).name for line in (checkout.parent / "installed").read_text().splitlines()]


def test_it_is_done_once(checkout: Path) -> None:
    assert set_up(checkout) == (0, f"setting up .venv from {LOCK} (once) … done\n")
    assert set_up(checkout) == (0, "")


def test_what_failed_is_told_and_tried_again(checkout: Path) -> None:
    gone = checkout.parent / "no-index"
    gone.touch()
    for _ in range(2):
        code, told = set_up(checkout)
        assert code == 1
        assert told.splitlines()[-2] == "error: the virtual environment could not be set up (output above)"
    gone.unlink()
    assert set_up(checkout)[0] == 0
    assert set_up(checkout) == (0, "")


def test_after_a_set_up_that_failed_the_earlier_one_is_not_believed_either(checkout: Path) -> None:
    """Another commit's packages may be there in part when its predecessor is checked out again."""
    before = (checkout / LOCK).read_text()
    set_up(checkout)
    (checkout.parent / "no-index").touch()
    (checkout / LOCK).write_text("click==9.0\n")
    assert set_up(checkout)[0] == 1
    (checkout / LOCK).write_text(before)
    assert set_up(checkout)[0] == 1


def test_what_developers_need_holds_what_runs(checkout: Path) -> None:
    assert set_up(checkout, DEVELOPMENT)[0] == 0
    assert set_up(checkout) == (0, "")
    assert installed(checkout) == [DEVELOPMENT]


def test_of_two_at_once_one_installs(checkout: Path) -> None:
    both = [begin(checkout) for _ in range(2)]
    told = [running.communicate(timeout=60)[1] for running in both]
    assert [running.returncode for running in both] == [0, 0]
    assert sorted(told) == ["", f"setting up .venv from {LOCK} (once) … done\n"]
    assert installed(checkout) == [LOCK]


def test_what_a_shell_has_set_for_other_purposes_changes_nothing(checkout: Path) -> None:
    decoy = checkout.parent / "decoy"
    (decoy / "scripts").mkdir(parents=True)
    odd = {"CDPATH": str(decoy), "PYTHONHOME": str(decoy), "PYTHONPATH": str(decoy), "SHELLOPTS": "noclobber"}
    odd["BASH_FUNC_cd%%"] = '() { builtin cd "$@"; echo somewhere else; }'
    for _ in range(2):
        (checkout / LOCK).write_text((checkout / LOCK).read_text() + "# again\n")
        with begin(checkout, **odd) as running:
            assert running.communicate(timeout=60)[1].endswith("done\n")
        assert set_up(checkout) == (0, "")
    assert list(decoy.rglob("*")) == [decoy / "scripts"]
