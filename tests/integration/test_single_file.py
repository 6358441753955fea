"""tonnage.pyz: unpacked once, privately and whole, whoever starts it how often; and the real one runs a cluster."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

from tonnage import __version__

ROOT = Path(__file__).parent.parent.parent
SAYS = b"""import sys
def main():
    import tonnage
    print(tonnage.__file__, sys.argv[0], *sys.argv[1:])
"""


def script(name: str) -> Any:
    """A program of scripts/ as a module."""
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def small(folder: Path, says: bytes = SAYS) -> Path:
    """A file with next to nothing in it, made as the real one is."""
    file = folder / "tonnage.pyz"
    site = {"tonnage/__init__.py": b"", "tonnage/cli.py": says}
    file.write_bytes(script("build-pyz").archive(site, version="9.9"))
    return file


def start(file: Path, cache: Path, *arguments: str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.Popen(
        [sys.executable, str(file), *arguments],
        env={**clean, "TONNAGE_PYZ_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=file.parent,
    )


def told(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_it_unpacks_itself_into_a_private_folder_and_runs_from_there(tmp_path: Path):
    cache = tmp_path / "cache"
    code, out, err = told(start(small(tmp_path), cache, "explain", "--pod", "a b"))
    assert (code, err) == (0, "")
    (folder,) = (path for path in cache.iterdir() if path.is_dir())
    assert out == f"{folder}/tonnage/__init__.py tonnage explain --pod a b\n"
    assert folder.name.startswith("9.9-")
    assert (cache.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o700, 0o700)


def test_many_that_start_at_once_unpack_it_once(tmp_path: Path):
    file, cache = small(tmp_path), tmp_path / "cache"
    answers = [told(process) for process in [start(file, cache) for _ in range(6)]]
    assert {code for code, _, _ in answers} == {0}
    assert len({out for _, out, _ in answers}) == 1
    assert len([path for path in cache.iterdir() if path.is_dir()]) == 1


def test_what_a_killed_process_left_is_thrown_away(tmp_path: Path):
    file, cache = small(tmp_path), tmp_path / "cache"
    assert told(start(file, cache))[0] == 0
    (folder,) = (path for path in cache.iterdir() if path.is_dir())
    half = Path(f"{folder}.partial")
    folder.rename(half)
    (half / "tonnage" / "cli.py").write_bytes(b"def ma")
    assert told(start(file, cache))[0] == 0
    assert not half.exists()


def test_it_runs_by_any_path_to_it(tmp_path: Path):
    """`./tonnage.pyz`, from another folder, by a link."""
    file, elsewhere = small(tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "link").symlink_to(file)
    environment = {**os.environ, "TONNAGE_PYZ_CACHE": str(tmp_path / "cache")}
    for path, folder in (("./tonnage.pyz", tmp_path), ("../tonnage.pyz", elsewhere), ("./link", elsewhere)):
        done = subprocess.run([sys.executable, path, "a"], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith(" tonnage a\n")


@pytest.mark.parametrize(
    ("name", "entry"), [("kubectl-tonnage", "kubectl_main"), ("kubectl_complete-tonnage", "kubectl_complete")]
)
def test_a_link_by_a_plugins_name_is_that_plugin(tmp_path: Path, name: str, entry: str):
    file = small(tmp_path, SAYS + f"def {entry}():\n    print('as {entry}', *__import__('sys').argv[1:])\n".encode())
    (tmp_path / name).symlink_to(file)
    code, out, err = told(start(tmp_path / name, tmp_path / "cache", "explain"))
    assert (code, out) == (0, f"as {entry} explain\n"), err


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_folder_that_lost_files_is_told_with_a_remedy(tmp_path: Path, is_gone: bool):
    """A cleaner of old files was there, or a disk was full."""
    file, cache = small(tmp_path), tmp_path / "cache"
    assert told(start(file, cache))[0] == 0
    (folder,) = (path for path in cache.iterdir() if path.is_dir())
    shutil.rmtree(folder / "tonnage" / "__pycache__", ignore_errors=True)
    if is_gone:
        (folder / "tonnage" / "cli.py").unlink()
    else:
        (folder / "tonnage" / "cli.py").write_text("def ma")
    code, out, err = told(start(file, cache))
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {folder} is not whole: ") and f"hint: rm -r {folder}" in err


def test_another_content_is_another_folder(tmp_path: Path):
    cache = tmp_path / "cache"
    assert told(start(small(tmp_path), cache))[0] == 0
    code, out, _ = told(start(small(tmp_path, SAYS.replace(b"print(", b"print('new', ")), cache))
    assert code == 0 and out.startswith("new ")
    assert len([path for path in cache.iterdir() if path.is_dir()]) == 2


def test_a_cache_that_others_may_write_to_is_refused(tmp_path: Path):
    file, cache = small(tmp_path), tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    code, out, err = told(start(file, cache))
    assert (code, out) == (1, "")
    assert f"others may write to {cache}; chmod go-w takes that away" in err
    assert err.splitlines()[-1].startswith("hint: ")


def test_a_cache_that_cannot_be_made_is_told(tmp_path: Path):
    (tmp_path / "file").touch()
    code, _, err = told(start(small(tmp_path), tmp_path / "file" / "cache"))
    assert code == 1
    assert err.startswith("error: ") and "Not a directory" in err and "TONNAGE_PYZ_CACHE" in err


def test_a_file_for_another_python_says_so(tmp_path: Path):
    file = small(tmp_path)
    with zipfile.ZipFile(file) as opened:
        content = {name: opened.read(name) for name in opened.namelist()}
    about = json.loads(content["about.json"]) | {"python": "cpython-30"}
    with zipfile.ZipFile(file, "w") as opened:
        for name, data in {**content, "about.json": json.dumps(about).encode()}.items():
            opened.writestr(name, data)
    code, _, err = told(start(file, tmp_path / "cache"))
    assert code == 1
    assert err.startswith("error: this file is for cpython-30 on ")
    assert not (tmp_path / "cache").exists()


def test_a_damaged_file_leaves_nothing_behind(tmp_path: Path):
    file, cache = small(tmp_path), tmp_path / "cache"
    with zipfile.ZipFile(file) as opened:
        at = opened.getinfo("site/tonnage/cli.py").header_offset + 60
    damaged = bytearray(file.read_bytes())
    damaged[at] ^= 0xFF
    file.write_bytes(damaged)
    code, _, err = told(start(file, cache))
    assert code == 1, err
    assert not any(path.is_dir() for path in cache.iterdir())


def test_the_same_content_gives_the_same_bytes():
    site = {"b/x.py": b"1", "a.py": b"2"}
    build = script("build-pyz")
    assert build.archive(site, version="1") == build.archive(dict(reversed(site.items())), version="1")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """dist/ as `make package` leaves it."""
    return package(tmp_path_factory.mktemp("dist"))


def package(folder: Path) -> Path:
    run = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(run, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    subprocess.run(
        [sys.executable, ROOT / "scripts" / "build-pyz", wheel, "--output", folder / "tonnage.pyz"],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return folder


@pytest.mark.slow
def test_two_builds_are_the_same_to_the_byte(packed: Path, tmp_path: Path):
    again = package(tmp_path)
    for name in ("tonnage.pyz", "tonnage.cdx.json", f"tonnage-{__version__}-py3-none-any.whl"):
        assert (packed / name).read_bytes() == (again / name).read_bytes(), name


@pytest.mark.slow
def test_the_bill_of_materials_names_what_the_lock_file_pins(packed: Path):
    bill = json.loads((packed / "tonnage.cdx.json").read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "tonnage")
    named = {f"{each['name']}=={each['version']}" for each in bill["components"]}
    lock = {re.split(r" [;\\]", line)[0] for line in (ROOT / "requirements.lock").read_text().splitlines()}
    assert named <= lock and len(named) >= 20
    assert all(each["licenses"] for each in bill["components"])


@pytest.mark.slow
def test_the_real_file_tells_its_version_and_explains(packed: Path, tmp_path: Path):
    cache = tmp_path / "cache"
    code, out, err = told(start(packed / "tonnage.pyz", cache, "version", "-o", "json"))
    assert (code, json.loads(out)["tonnage"]) == (0, __version__), err
    example = ROOT / "examples" / "02-explain"
    code, out, err = told(start(packed / "tonnage.pyz", cache, "explain", "-f", str(example), "--pod", "shop/web-1"))
    assert code == 0, err
    assert out in (example / "README.md").read_text()


@pytest.mark.slow
def test_the_real_file_runs_a_cluster(packed: Path, tmp_path: Path):
    """Its children are of the version that was started, also when the file is gone."""
    file, cache = tmp_path / "tonnage.pyz", tmp_path / "cache"
    shutil.copy(packed / "tonnage.pyz", file)
    up = start(file, cache, "up", "--data-dir", str(tmp_path / "up"), "--secure-port", "0", "--nodes", "1")
    assert up.stdout is not None and up.stderr is not None
    try:
        line = up.stdout.readline()
        assert line.startswith("ready https://"), up.stderr.read()
        (folder,) = (path for path in cache.iterdir() if path.is_dir())
        pid = int((tmp_path / "up" / "run" / "scheduler.pid").read_text())
        maps = Path(f"/proc/{pid}/maps")
        if maps.exists():
            assert f"{folder}/numpy/" in maps.read_text()
    finally:
        up.send_signal(signal.SIGTERM)
        up.communicate(timeout=60)
    assert up.returncode == 0
