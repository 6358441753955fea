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
def trees() -> dict[Path, ast.Module]:
    """The whole package, read once, by the first test that needs it."""
    return {path: ast.parse(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")}


@cache
def calls_and_texts() -> tuple[list[tuple[Path, ast.Call]], set[str]]:
    """Every call of the package with its file, and every text: one walk for all that ask."""
    calls: list[tuple[Path, ast.Call]] = []
    texts: set[str] = set()
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                calls.append((path, node))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
    return calls, texts


@cache
def constants() -> dict[str, str]:
    return {name: value for tree in trees().values() for name, value in constants_of(tree).items()}


@cache
def reasons() -> dict[str, set[str]]:
    """By file, the reasons of the events that it writes; "?" for one that is worked out elsewhere."""
    found: dict[str, set[str]] = {}
    for path, node in calls_and_texts()[0]:
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
    assert whole - calls_and_texts()[1] == set()


def test_a_reason_that_is_handed_on_is_in_the_reference() -> None:
    """`self._tell(volume, "Normal", "VolumeRebuilt", note)`: a type, and a reason after it, to whomever."""
    told = {
        after.value
        for _, node in calls_and_texts()[0]
        for type_, after in pairwise(node.args)
        if isinstance(type_, ast.Constant) and type_.value in ("Normal", "Warning")
        if isinstance(after, ast.Constant) and isinstance(after.value, str)
    }
    assert len(told) > 20
    assert told - KNOWN == set()
