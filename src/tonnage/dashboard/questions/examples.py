"""Examples that can be played: those whose README shows `tonnage replay` or `tonnage simulate` with their files.

    for each in examples():          # of the checkout, or those that come with the package
        each.name, each.title, each.about, each.part
    files_of("03-replay/burst")      # as if they had been dropped on the page

What a README shows is what is offered: the same files, the same configuration. Three of them teach the parts of
KEP-5925, and are offered first, by the part's name.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from tonnage.errors import TonnageError
from tonnage.suggestions import closest
from tonnage.whatif.manifest_text import GivenText

_PACKAGE: Final = Path(__file__).parents[2]
_CHECKOUT: Final = _PACKAGE.parents[1] / "examples"
_PACKAGED: Final = _PACKAGE / "examples"
_BESIDE: Final = _PACKAGE.parents[1] / "pyproject.toml"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
TEACHES: Final = {
    "24-three-parts/joint-packing": "Joint packing",
    "24-three-parts/reservation": "Reservation",
    "24-three-parts/rebuilding": "Rebuilding",
}
"""The three parts of KEP-5925, each with the example that teaches it."""


@dataclass(frozen=True, slots=True)
class Example:
    """One command of a README: the files that it names."""

    name: str
    title: str
    about: str
    kind: str
    files: tuple[Path, ...]

    @property
    def part(self) -> str:
        """The part of KEP-5925 that it teaches; empty for most."""
        return TEACHES.get(self.name, "")


@cache
def examples() -> tuple[Example, ...]:
    """All of them, those that teach first."""
    folder = _CHECKOUT if _BESIDE.is_file() and _CHECKOUT.is_dir() else _PACKAGED
    found: dict[str, Example] = {}
    for readme in sorted(folder.glob("*/README.md")):
        for each in _in_readme(readme, folder):
            found.setdefault(each.name, each)
    order = list(TEACHES)
    return tuple(
        sorted(found.values(), key=lambda each: (order.index(each.name) if each.part else len(order), each.name))
    )


def files_of(name: str) -> list[GivenText]:
    """The files of an example, by its name. Raises TonnageError when there is none of that name."""
    known = {each.name: each for each in examples()}
    if name not in known:
        near = closest(name, known)
        hint = f"is {near[0]} meant?" if near else f"there are {', '.join(known)}" if known else None
        raise TonnageError(f'there is no example "{name}"', hint=hint)
    example = known[name]
    return [GivenText(each.relative_to(_root(each)).as_posix(), each.read_bytes()) for each in example.files]


def _root(file: Path) -> Path:
    return next(parent for parent in file.parents if parent.name == "examples")


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
        manifests = [file for each in options.get("-f", ()) for file in _manifests(each, played[0])]
        beside = f"+{configs[0].stem}" if configs else ""
        yield Example(
            f"{readme.parent.name}/{played[0].stem}{beside}",
            f"{heading}: {played[0].stem}" + (f", with {configs[0].name}" if configs else ""),
            _about(played[0]),
            words[1],
            (*manifests, *played, *configs),
        )


def _manifests(source: Path, played: Path) -> Iterator[Path]:
    if not source.is_dir():
        yield source
        return
    yield from (
        each for each in sorted(source.rglob("*")) if each.suffix in _SUFFIXES and each != played and each.is_file()
    )


def _about(file: Path) -> str:
    """What its first lines say, as a comment."""
    words = []
    for line in file.read_text().splitlines():
        if not line.startswith("#"):
            break
        words.append(line.lstrip("# ").rstrip())
    return " ".join(words)
