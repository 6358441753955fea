"""Files to replay: manifests, steps, a scenario, or the scheduler's configuration; and examples.

Contents decide what a file is, not its name: people drop unsorted folders on a page. Examples come with Tonnage: those
whose README shows `tonnage replay` or `tonnage simulate`, with the files it names. Three of them teach the parts of
KEP-5925 and come first.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Final, NamedTuple

from tonnage.errors import TonnageError, closest
from tonnage.keyed import grouped
from tonnage.whatif.manifests import GivenText
from tonnage.whatif.simulate.scenario import KIND

MANIFESTS, STEPS, SCENARIO, CONFIGURATION, OTHER = "manifests", "steps", "scenario", "configuration", ""
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_CONFIGURATION_KIND: Final = "KubeSchedulerConfiguration"
_KIND: Final = re.compile(rb"""^\s{0,2}["']?kind["']?\s*:\s*["']?(\w+)""", re.MULTILINE)
_LINE: Final = re.compile(rb"[ \t\r\f\v]*([^\n]*)\n?")
"""A line from its first non-space character. Linear in any file: files may be hostile."""


class GivenFiles(NamedTuple):
    manifests: list[GivenText]
    steps: GivenText | None
    scenario: GivenText | None
    config: GivenText | None
    passed_over: list[str]


def kind_of(given: GivenText) -> str:
    """What a file holds; empty for none of our kinds."""
    if not given.name.lower().endswith(_SUFFIXES):
        return OTHER
    if _is_list(given.data):
        return STEPS
    kinds = set(_KIND.findall(given.data))
    if KIND.encode() in kinds:
        return SCENARIO
    return CONFIGURATION if _CONFIGURATION_KIND.encode() in kinds else MANIFESTS


def _is_list(data: bytes) -> bool:
    """True if the file begins with a list, after comments and `---`: manifests are maps."""
    for line in _LINE.finditer(data.removeprefix(b"\xef\xbb\xbf")):
        said = line[1]
        if said and not said.startswith((b"#", b"---")):
            return said[:1] == b"[" or said.split(None, 1)[0] == b"-"
    return False


def sorted_out(files: Iterable[GivenText]) -> GivenFiles:
    """Sort files by kind. Raises TonnageError when they cannot be replayed."""
    by_kind = grouped((kind_of(file), file) for file in files)
    manifests = by_kind.get(MANIFESTS, [])
    steps = _only(by_kind.get(STEPS, []), "files of steps")
    scenario = _only(by_kind.get(SCENARIO, []), "scenarios")
    config = _only(by_kind.get(CONFIGURATION, []), "configurations of the scheduler")
    if steps is not None and scenario is not None:
        raise TonnageError(
            f"{steps} holds steps and {scenario} is a scenario; one of the two can be played",
            hint="leave the other one out",
        )
    if steps is None and scenario is None:
        raise TonnageError(
            "there is nothing to play in these files: no list of steps, and no scenario",
            hint="give a file of steps (tonnage replay) or a Scenario (tonnage simulate), with the cluster's manifests",
        )
    if not manifests:
        raise TonnageError("the cluster is missing", hint="give the cluster's manifests too")
    return GivenFiles(manifests, steps, scenario, config, [each.name for each in by_kind.get(OTHER, [])])


def _only(found: Sequence[GivenText], what: str) -> GivenText | None:
    if len(found) > 1:
        raise TonnageError(
            f"there are {len(found)} {what}, and one can be played: {', '.join(map(str, found))}",
            hint="leave out all but one",
        )
    return found[0] if found else None


def captions(steps: GivenText, count: int) -> list[str]:
    """The comment above every step, in which authors tell its story; empty without one. A file whose steps do not all
    begin with a dash at the start of a line has no captions."""
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


_PACKAGE: Final = Path(__file__).parents[2]
_CHECKOUT: Final = _PACKAGE.parents[1] / "examples"
_PACKAGED: Final = _PACKAGE / "examples"
_BESIDE: Final = _PACKAGE.parents[1] / "pyproject.toml"

TEACHES: Final = {
    "24-three-parts/joint-packing": "Joint packing",
    "24-three-parts/reservation": "Reservation",
    "24-three-parts/rebuilding": "Rebuilding",
}


@dataclass(frozen=True, slots=True)
class Example:
    """One command of a README, with the files that it names."""

    name: str
    title: str
    about: str
    kind: str
    files: tuple[Path, ...]

    @property
    def part(self) -> str:
        """The part of KEP-5925 that the example teaches; empty for most."""
        return TEACHES.get(self.name, "")


@cache
def examples() -> tuple[Example, ...]:
    folder = _CHECKOUT if _BESIDE.is_file() and _CHECKOUT.is_dir() else _PACKAGED
    found: dict[str, Example] = {}
    for readme in sorted(folder.glob("*/README.md")):
        for example in _in_readme(readme, folder):
            found.setdefault(example.name, example)
    order = list(TEACHES)
    return tuple(
        sorted(found.values(), key=lambda each: (order.index(each.name) if each.part else len(order), each.name))
    )


def files_of(name: str) -> list[GivenText]:
    """The files of an example. Raises TonnageError for an unknown name."""
    known = {example.name: example for example in examples()}
    if name not in known:
        near = closest(name, known)
        hint = f"did you mean {near[0]}?" if near else f"the examples are {', '.join(known)}" if known else None
        raise TonnageError(f'there is no example "{name}"', hint=hint)
    root = {path: next(parent for parent in path.parents if parent.name == "examples") for path in known[name].files}
    return [GivenText(path.relative_to(root[path]).as_posix(), path.read_bytes()) for path in known[name].files]


def _in_readme(readme: Path, folder: Path) -> Iterator[Example]:
    text = readme.read_text()
    heading = next((line.lstrip("# ") for line in text.splitlines() if line.startswith("# ")), readme.parent.name)
    for line in text.splitlines():
        words = shlex.split(line) if line.startswith(("./tonnage replay ", "./tonnage simulate ")) else []
        if not words or "--recording" in words or ("--compare" in words[2:] and "--steps" in words):
            continue
        options: dict[str, list[Path]] = {}
        for option, value in pairwise(words):
            if option in ("-f", "--steps", "--scenario", "--config"):
                options.setdefault(option, []).append(folder.parent / value)
        played = [*options.get("--steps", ()), *options.get("--scenario", ())]
        if len(played) != 1 or not played[0].is_file():
            continue
        configs = options.get("--config", [])
        manifests = [file for path in options.get("-f", ()) for file in _manifests(path, played[0])]
        beside = f"+{configs[0].stem}" if configs else ""
        yield Example(
            f"{readme.parent.name}/{played[0].stem}{beside}",
            f"{heading}: {played[0].stem}" + (f", with {configs[0].name}" if configs else ""),
            _about(played[0]),
            words[1],
            (*manifests, *played, *configs),
        )


def _manifests(source: Path, played: Path) -> list[Path]:
    if not source.is_dir():
        return [source]
    found = sorted(source.rglob("*"))
    return [path for path in found if path.suffix in _SUFFIXES and path != played and path.is_file()]


def _about(file: Path) -> str:
    """The comment in the file's first lines."""
    comment = takewhile(lambda line: line.startswith("#"), file.read_text().splitlines())
    return " ".join(line.lstrip("# ").rstrip() for line in comment)
