"""Options as data: `NAME.toml` beside this file declares the options of a command, or of several, in the order of help.

    ["--secure-port"]
    into = "port"               the command's parameter, if it is not the flag's own name
    type = "port"               one of `TYPES`; `int` and `float` may have `min` and `max`; text without a type
    default = 6443              shown in help, unless it is empty or `show_default` is false
    help = "0 takes a free one."

`type = "switch"` and `"texts"` are pflag's booleans and lists; an `optional switch` is None unless it is given.
`ignored` and `refused` are flags of upstream's without effect here (`go_flags.py`). Every other key is click's own.
`["endpoint.toml"]` stands for the options of that file, and may change some of them: `secure_port.default = 10257`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

import click

from tonnage.cli.flags.go_flags import FILE, FOLDER, ignored, refused, switch, texts
from tonnage.cli.options import (
    BYTES,
    COUNT,
    DURATION,
    EXISTING_FILE,
    FILE_PATH,
    FOLDER_PATH,
    POOLS,
    PORT,
    Option,
    options,
)

TYPES: Final[Mapping[str, click.ParamType[Any]]] = {
    "bool": click.BOOL,
    "bytes": BYTES,
    "count": COUNT,
    "duration": DURATION,
    "existing file": EXISTING_FILE,
    "existing folder": click.Path(path_type=Path, file_okay=False, exists=True),
    "file": FILE_PATH,
    "float": click.FLOAT,
    "folder": FOLDER_PATH,
    "given file": FILE,
    "given folder": FOLDER,
    "int": click.INT,
    "pools": POOLS,
    "port": PORT,
    "text": click.STRING,
}
_OF_PFLAG: Final[Mapping[Any, Callable[..., Option]]] = {
    "switch": switch,
    "optional switch": partial(switch, default=None),
    "texts": texts,
}
_RANGES: Final = {"int": click.IntRange, "float": click.FloatRange}


def declared(name: str, **more: Mapping[str, Any]) -> Option:
    """The options of `NAME.toml`. `more` has what only Python can say, by parameter: a callback, a constant."""
    text = resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return options(*(_option(flag, told, more) for flag, told in tomllib.loads(text).items()))


def _option(flag: str, told: dict[str, Any], more: Mapping[str, Mapping[str, Any]]) -> Option:
    if flag.endswith(".toml"):
        return declared(flag.removesuffix(".toml"), **{**told, **more})
    if "ignored" in told:
        return ignored(flag, **told["ignored"])
    if "refused" in told:
        return refused(flag, **told["refused"])
    into = told.pop("into", None)
    told |= more.get(into or flag.rpartition("--")[2].replace("-", "_"), {})
    if told.get("type") in _OF_PFLAG:
        return _OF_PFLAG[told.pop("type")](flag, **told)
    if not told.get("is_flag") and "/" not in flag:
        told["type"] = _type(told.pop("type", "text"), told)
    told.setdefault("show_default", told.get("default", "") != "")
    return click.option(*flag.split(), *([into] if into else []), **told)


def _type(kind: Any, told: dict[str, Any]) -> Any:
    if "choices" in told:
        return click.Choice(told.pop("choices"))
    limits = {end: told.pop(end) for end in ("min", "max") if end in told}
    return _RANGES[kind](**limits) if limits else TYPES.get(kind, kind)
