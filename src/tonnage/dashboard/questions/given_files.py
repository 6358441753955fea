"""Files that are played: which of them are manifests, steps, a scenario, or the scheduler's configuration.

    given = sorted_out([GivenText("cluster.yaml", b"…"), GivenText("steps.yaml", b"…")])
    given.manifests, given.steps, given.scenario, given.config

They are told apart by what they hold, not by their names: whoever drops a folder on a page does not sort it first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tonnage.errors import TonnageError
from tonnage.whatif.manifest_text import GivenText
from tonnage.whatif.simulate.scenario import KIND

MANIFESTS, STEPS, SCENARIO, CONFIGURATION, OTHER = "manifests", "steps", "scenario", "configuration", ""
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_CONFIGURATION_KIND: Final = "KubeSchedulerConfiguration"
_KIND: Final = re.compile(rb"""^\s{0,2}["']?kind["']?\s*:\s*["']?(\w+)""", re.MULTILINE)
_LINE: Final = re.compile(rb"[ \t\r\f\v]*([^\n]*)\n?")
"""A line from its first mark on. One pass, whatever the file is like: whoever gives it may have written it for us."""


@dataclass(slots=True)
class GivenFiles:
    manifests: list[GivenText] = field(default_factory=list)
    steps: GivenText | None = None
    scenario: GivenText | None = None
    config: GivenText | None = None
    passed_over: list[str] = field(default_factory=list)


def kind_of(given: GivenText) -> str:
    """What a file holds; empty for one that is none of ours."""
    if not given.name.lower().endswith(_SUFFIXES):
        return OTHER
    if _is_list(given.data):
        return STEPS
    kinds = set(_KIND.findall(given.data))
    if KIND.encode() in kinds:
        return SCENARIO
    return CONFIGURATION if _CONFIGURATION_KIND.encode() in kinds else MANIFESTS


def _is_list(data: bytes) -> bool:
    """Whether it begins with a list, after comments and the begin of a document: manifests are maps."""
    for line in _LINE.finditer(data.removeprefix(b"\xef\xbb\xbf")):
        said = line[1]
        if said and not said.startswith((b"#", b"---")):
            return said[:1] == b"[" or said.split(None, 1)[0] == b"-"
    return False


def sorted_out(files: Iterable[GivenText]) -> GivenFiles:
    """Files by what they hold. Raises TonnageError when they cannot be played."""
    found = GivenFiles()
    by_kind: dict[str, list[GivenText]] = {}
    for each in files:
        by_kind.setdefault(kind_of(each), []).append(each)
    found.manifests = by_kind.get(MANIFESTS, [])
    found.passed_over = [each.name for each in by_kind.get(OTHER, [])]
    found.steps = _only(by_kind.get(STEPS, []), "files of steps")
    found.scenario = _only(by_kind.get(SCENARIO, []), "scenarios")
    found.config = _only(by_kind.get(CONFIGURATION, []), "configurations of the scheduler")
    if found.steps is not None and found.scenario is not None:
        raise TonnageError(
            f"{found.steps} holds steps and {found.scenario} is a scenario; one of the two can be played",
            hint="leave the other one out",
        )
    if found.steps is None and found.scenario is None:
        raise TonnageError(
            "there is nothing to play in these files: no list of steps, and no scenario",
            hint="give a file of steps (tonnage replay) or a Scenario (tonnage simulate), with the cluster's manifests",
        )
    if not found.manifests:
        raise TonnageError("the cluster is missing", hint="give the cluster's manifests too")
    return found


def _only(found: Sequence[GivenText], what: str) -> GivenText | None:
    if len(found) > 1:
        raise TonnageError(
            f"there are {len(found)} {what}, and one can be played: {', '.join(map(str, found))}",
            hint="leave out all but one",
        )
    return found[0] if found else None


def captions(steps: GivenText, count: int) -> list[str]:
    """What is written above each step as a comment, which is how an author tells its story; empty where nothing is.

    A file that is written otherwise than with a dash at the beginning of each step's line has no captions.
    """
    found: list[str] = []
    comment: list[str] = []
    for line in steps.data.decode(errors="replace").splitlines():
        if line.startswith("#"):
            comment.append(line.lstrip("# ").rstrip())
        elif line.startswith("- ") or line == "-":
            found.append(" ".join(comment))
            comment = []
        elif not line.strip():
            continue
        else:
            comment = []
    return found if len(found) == count else [""] * count
