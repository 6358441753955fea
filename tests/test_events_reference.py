"""docs/reference/events.md names every event that a program writes: every call of a recorder in the package is read."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tonnage"
sys.path.append(str(ROOT / "scripts"))

from reference.events import EVENTS, UNNAMED  # noqa: E402

KNOWN = {each.reason for each in EVENTS}
WRITES = re.compile(r"\b(event|EventToRecord|Note)\(|\"(Normal|Warning)\"")
CONSTANT = re.compile(r'^([A-Z][A-Z0-9_]*)(?:: [^=\n]+)? = "([^"\\\n]+)"', re.MULTILINE)
COMPOSED = re.compile(r"(Successful|Failed)(Create|Update|Delete)|OutOf.*")


def constants_of(tree: ast.Module) -> dict[str, str]:
    """Names of the module that stand for a text."""
    found: dict[str, str] = {}
    for node in tree.body:
        target: ast.expr | None = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            found[target.id] = value.value
    return found


@cache
def sources() -> dict[Path, str]:
    """The whole package, read once, by the first test that needs it."""
    return {path: path.read_text("utf-8") for path in SOURCE.rglob("*.py")}


@cache
def trees() -> dict[Path, ast.Module]:
    """The files that could write an event; to parse and walk the others would take most of the time."""
    return {path: ast.parse(text) for path, text in sources().items() if WRITES.search(text)}


@cache
def calls() -> list[tuple[Path, ast.Call]]:
    """Every call of those files."""
    return [(path, node) for path, tree in trees().items() for node in ast.walk(tree) if isinstance(node, ast.Call)]


@cache
def constants() -> dict[str, str]:
    """Texts of the package that have a name in capitals."""
    return {name: value for text in sources().values() for name, value in CONSTANT.findall(text)}


@cache
def reasons() -> dict[str, set[str]]:
    """By file, the reasons of the events that it writes; "?" for one that is worked out elsewhere."""
    found: dict[str, set[str]] = {}
    for path, node in calls():
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name not in ("event", "EventToRecord", "Note"):
            continue
        # event(about, type, reason, action, note); a plugin's api has no type; Note(type, reason, note)
        own = constants_of(trees()[path])
        texts = [_text(each, own) for each in node.args]
        types = [place for place, text in enumerate(texts) if text in ("Normal", "Warning")]
        if name == "event" and len(texts) < 4:
            continue  # hands on a Note, which is read where it is made
        place = types[0] + 1 if types else 2 if name == "event" and len(texts) > 4 else 1
        found.setdefault(path.relative_to(SOURCE).as_posix(), set()).add(texts[place] or "?")
    return found


def _text(node: ast.expr, own: dict[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    named = getattr(node, "id", getattr(node, "attr", ""))
    return own.get(named) or (constants().get(named) if named.isupper() else None)


def test_every_reason_in_the_source_is_in_the_reference() -> None:
    told = {reason for found in reasons().values() for reason in found if reason != "?"}
    assert len(told) > 30
    assert told - KNOWN == set()


def test_where_a_reason_is_worked_out_elsewhere_the_reference_says_which_come() -> None:
    unnamed = {path for path, found in reasons().items() if "?" in found}
    assert unnamed - set(UNNAMED) == set(), "say in scripts/reference/events.py which reasons these files write"
    assert set().union(*UNNAMED.values()) - KNOWN == set()


def test_every_reason_in_the_reference_is_written_by_somebody() -> None:
    told = {reason for found in reasons().values() for reason in found} | set().union(*UNNAMED.values())
    assert KNOWN - told == set()


def test_a_reason_that_the_reference_names_for_a_file_is_a_text_of_the_package() -> None:
    # "Successful" and "Failed" are put before the verb where pods and claims are made, "OutOf" before a resource.
    whole = {reason for reasons in UNNAMED.values() for reason in reasons if not COMPOSED.fullmatch(reason)}
    assert len(whole) > 15
    assert {reason for reason in whole if not any(f'"{reason}"' in text for text in sources().values())} == set()


def test_a_reason_that_is_handed_on_is_in_the_reference() -> None:
    """`self._tell(volume, "Normal", "VolumeRebuilt", note)`: a type, and a reason after it, to whomever."""
    told = {
        after.value
        for _, node in calls()
        for type_, after in pairwise(node.args)
        if isinstance(type_, ast.Constant) and type_.value in ("Normal", "Warning")
        if isinstance(after, ast.Constant) and isinstance(after.value, str)
    }
    assert len(told) > 20
    assert told - KNOWN == set()
