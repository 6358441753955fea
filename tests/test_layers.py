"""The house has seven rows; imports go down, never up and never sideways. The picture is data, every import is read.

`ROWS` are the rows of `src/tonnage`. `INNER_ROWS` are the rows inside the packages that have rooms of their own. In
both a row is a tuple of names, the lowest row first. Neighbours in a row are strangers to one another, except in the
rows that say otherwise: the single files at the bottom, and those that put programs together.

docs/architecture.md has the same picture in words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "tonnage"

Rows = tuple[tuple[str, ...], ...]

ROWS: Rows = (
    (
        "certificates", "clock", "connection_budget", "endpoints",
        "errors", "faults", "gates", "health", "http_connection", "keyed", "listener", "logs",
        "metrics", "printable", "private_files", "quantity", "serving",
    ),
    ("objects",),
    ("store", "documents", "client", "scheduling", "csi", "roles"),
    ("behaviour",),
    (
        "apiserver", "scheduler", "controllers", "provisioner", "pools", "node", "driver", "driver_check", "nodescaler",
        "whatif",
    ),
    ("plane", "stories", "dashboard", "testing"),
    ("cli",),
    ("__main__",),
)  # fmt: skip

INNER_ROWS: dict[str, Rows] = {
    "objects": (
        ("field_errors", "meta", "names", "resources"),
        ("decode_errors", "users"),
        ("document", "texts"),
        ("field_rules", "requirements"),
        ("selectors",),
        ("apps_v1", "core_v1", "small_groups", "storage_v1"),
        ("batch_v1", "events_v1", "size_rules", "volume_matching"),
        ("codec",),
    ),
    "client": (
        ("cache", "errors", "leadership", "rest", "throttle"),
        ("config",),
        ("transport",),
        ("calls", "delegated_access", "program_pages"),
        ("http",),
        ("informer", "leader"),
        ("informers", "metrics"),
        ("reconciler",),
        ("recorder", "discovered_kinds"),
        ("program",),
    ),
    "apiserver": (
        ("custom_definitions", "event_loop", "openapi", "settings", "tables"),
        ("requests",),
        ("stored_documents",),
        ("admission", "audit_log", "authorizer", "bodies", "health_checks", "responses"),
        ("discovery", "metrics", "registry"),
        ("authentication", "custom_lifecycle"),
        ("bootstrap", "verbs"),
        ("app",),
        ("server",),
    ),
    "documents": (
        ("go_text", "schema"),
        ("strategy",),
        ("validation",),
        ("admit", "api_errors"),
        ("access", "deletion", "patches", "protobuf"),
        ("apply", "subresources"),
        ("custom",),
        ("kinds",),
        ("admission",),
        ("creation",),
    ),
    "scheduling": (
        ("cluster",),
        ("events",),
        ("framework",),
        ("per_node", "configuration", "queue", "decision"),
        ("volumes", "spread", "preemption"),
        ("plugins",),
        ("engine",),
        ("recording",),
    ),
    "behaviour": (("workloads", "volumes", "nodes"),),
    "driver": (
        ("node_pools",),
        ("state",),
        ("allocations",),
        ("driver",),
        ("volumes",),
        ("messages", "rebuilding", "lvm_nodes"),
        ("controller_service", "node_service"),
        ("serving",),
    ),
    "driver_check": (
        ("results",),
        ("contracts",),
        ("settings",),
        ("conversation",),
        ("measuring",),
        ("checks",),
    ),
    "provisioner": (
        ("metrics",),
        ("capacity",),
        ("context",),
        ("volumes",),
        ("program",),
    ),
    "pools": (
        ("reading", "settings"),
        ("class_pools",),
        ("sources", "wanted", "writing"),
        ("created_objects",),
        ("controller",),
        ("program",),
    ),
    "node": (
        ("settings",),
        ("node_objects", "context"),
        ("drivers",),
        ("mounts",),
        ("registration", "pods"),
        ("program",),
    ),
    "dashboard": (
        ("wire",),
        ("model",),
        ("status", "follow", "questions"),
        ("server", "terminal"),
    ),
    "controllers": (
        ("controller_context", "dependency_graph"),
        ("volumes", "workloads", "nodes", "garbage_collector", "namespaces"),
        ("program",),
    ),
    "whatif": (
        ("manifest_errors", "page", "workloads"),
        ("html", "manifests"),
        ("creation",),
        ("node_copies", "scheduler_memory", "shadow"),
        ("knobs", "recording", "schedulers_seen"),
        ("sources",),
        ("expansion", "replay"),
        ("explain", "replay_steps"),
        ("explain_report", "simulate"),
        ("pending",),
        ("doctor", "drain", "fit"),
    ),
    "cli": (
        ("commands", "completion", "forkserver", "output"),
        ("flags",),
        ("about", "apiserver", "cluster_options", "fault"),
        ("running", "explain", "questions", "simulate"),
        ("controllers", "csi_driver", "dashboard", "node", "node_scaler", "pools", "provisioner", "scheduler", "up"),
        ("driver_check",),
    ),
}
"""Packages with rooms: their rows, the lowest first."""

MAY_KNOW_NEIGHBOURS = {"": (0, 5), "objects": (2,)}
"""Rows, by package, whose members may import one another: single files at the bottom; `stories` on a `plane`;
documents and their texts."""


@cache
def imports_of(path: Path) -> set[str]:
    """The modules of tonnage that a file imports, wherever in it the import stands, without `tonnage.`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.removeprefix("tonnage.") for name in names if name.startswith("tonnage.")}
    return found


def rooms_of(package: str) -> set[str]:
    """What lies directly in a package: its modules and its folders."""
    folder = SOURCE.joinpath(*package.split(".")) if package else SOURCE
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return files | {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}


FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")
PICTURES = {"": ROWS, **INNER_ROWS}


@pytest.mark.parametrize("package", PICTURES, ids=lambda package: package or "tonnage")
def test_the_picture_names_every_room_and_no_other(package: str) -> None:
    named = list(chain.from_iterable(PICTURES[package]))
    assert len(named) == len(set(named))
    assert set(named) == rooms_of(package)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_downwards_only(path: Path) -> None:
    here = path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".")
    imported = imports_of(path)
    for package, rows in PICTURES.items():
        prefix = f"{package}." if package else ""
        if not here.startswith(prefix) or here == f"{package}.__init__":
            continue
        row_of = {name: number for number, row in enumerate(rows) for name in row}
        room = here.removeprefix(prefix).split(".")[0]
        for name in sorted(imported):
            other = name.removeprefix(prefix).split(".")[0]
            if not name.startswith(prefix) or other == room or other not in row_of:
                continue
            row, below = row_of[room], row_of[other]
            is_allowed = below < row or (below == row and row in MAY_KNOW_NEIGHBOURS.get(package, ()))
            assert is_allowed, f"{here} (row {row + 1} of {package or 'tonnage'}) imports {name} (row {below + 1})"


@pytest.mark.parametrize("path", sorted((SOURCE / "behaviour").rglob("*.py")), ids=lambda path: path.stem)
def test_a_plan_knows_of_the_engines_below_it_only_how_pods_are_weighed(path: Path) -> None:
    engines = {name for name in imports_of(path) if name.split(".")[0] in ROWS[2]}
    ports = {f"scheduling.cluster.columns.{name}" for name in ("HostPort", "HostPorts", "host_ports_of")}
    weights = ("CPU", "MEMORY", "NATIVE", "PODS", "Amounts", "amounts", "is_extended", "requests_of")
    assert engines <= ports | {f"scheduling.cluster.pod_info.{name}" for name in weights}


MOST_MODULES = 25
"""In one folder. A room with more has a second idea in it."""


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in FILES}), ids=lambda each: str(each.relative_to(SOURCE))
)
def test_no_folder_has_too_many_modules(folder: Path) -> None:
    modules = sorted(path.name for path in folder.glob("*.py") if path.name != "__init__.py")
    assert len(modules) <= MOST_MODULES, modules


def test_no_module_imports_itself_through_others() -> None:
    """Not for the types alone either: two modules that know each other are one."""
    modules = {module_of(path): path for path in SOURCE.rglob("*.py")}
    imported = {name: {known_in(modules, other) for other in imports_of(path)} for name, path in modules.items()}
    done: set[str] = set()

    def walk(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " imports ".join((*above[above.index(name) :], name))
        if name not in done:
            for other in sorted(imported[name]):
                if other and other != name and not name.startswith(f"{other}."):
                    walk(other, (*above, name))
            done.add(name)

    for name in sorted(modules):
        walk(name, ())


def module_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")


def known_in(modules: Collection[str], name: str) -> str:
    """The module that a name is, or is of; empty when it is not one of ours."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


FOLDERS_OF_CODE = ("src", "tests", "scripts", "perf", "docs", "examples", "deploy")


def test_every_file_that_a_docstring_names_is_there() -> None:
    root = SOURCE.parent.parent
    there = {path.name for folder in FOLDERS_OF_CODE for path in (root / folder).rglob("*.py")}
    gone = []
    # Reading a module takes much longer than looking for a name in its text.
    for path in [each for each in FILES if re.search(r"\w\.py\b", each.read_text())]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                named = re.findall(r"\w+\.py\b", ast.get_docstring(node) or "")
                gone += [f"{path.relative_to(root)} names {file}" for file in named if file not in there]
    assert gone == []
