"""From the bytes of a file to documents: YAML or JSON, one or many, as kubectl would read them.

A text that starts with a brace is JSON, of which several may follow one another; where that fails it may still be YAML
in flow style. UTF-16, which PowerShell writes when kubectl's output is redirected, is read as well.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from tonnage.objects.texts.decode_budget import MAX_DEPTH, Budget, BudgetExceeded, file_limits
from tonnage.objects.texts.json_text import NumberOutOfRange, measure, read_json
from tonnage.objects.texts.yaml_text import InvalidYaml, documents
from tonnage.whatif.manifest_errors import BrokenManifest

_LONG_NUMBER = 19


@dataclass(frozen=True, slots=True)
class GivenText:
    """A file that lies on no disk of ours, with the name that it is told by; counts wherever a file's name does."""

    name: str
    data: bytes

    def __str__(self) -> str:
        return self.name


Source = str | GivenText
"""Where manifests stand: a file's or a folder's path, `-`, or a text that was given."""


def documents_of(data: bytes, file: str, warnings: list[str]) -> list[Any]:
    """The values of all documents, empty ones included, so that a position is a document's number. Raises
    BrokenManifest; what is doubtful is said in `warnings`.
    """
    if data.lstrip()[:1] == b"{":
        try:
            return [read_json(data, Budget(file_limits(len(data))))]
        except (BudgetExceeded, NumberOutOfRange) as exc:
            raise _unreadable(file, str(exc)) from exc
        except msgspec.DecodeError:
            pass  # several documents, another encoding, YAML in flow style, or broken: all found out below
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as exc:
        problem = f"byte {exc.start} is not {exc.encoding.upper()} text"
        raise BrokenManifest(file, problem, hint="give YAML or JSON files, saved as UTF-8") from exc
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] == "{":
        try:
            return _json_documents(text)
        except BudgetExceeded as exc:
            raise _unreadable(file, str(exc)) from exc
        except json.JSONDecodeError as exc:
            try:
                return _yaml_documents(text, file, warnings)
            except BrokenManifest:
                where = f"line {exc.lineno} column {exc.colno}"
                raise BrokenManifest(file, f"json: {where}: {exc.msg}", hint="correct the JSON there") from exc
    return _yaml_documents(text, file, warnings)


def _json_documents(text: str) -> list[Any]:
    data = text.encode(errors="surrogatepass")
    measure(data, Budget(file_limits(len(data))))
    decoder, found, at = json.JSONDecoder(parse_int=_integer), [], 0
    end = len(text.rstrip())
    while at < end:
        if text[at].isspace():
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except RecursionError:  # brackets that are not balanced cannot be measured
            raise BudgetExceeded("depth", MAX_DEPTH) from None
        found.append(value)
    return found


def _integer(digits: str) -> int | float:
    """An integer that 64 bits do not hold is a fraction to Go, and never takes long to read."""
    return int(digits) if len(digits) < _LONG_NUMBER else float(digits)


def _unreadable(file: str, problem: str) -> BrokenManifest:
    return BrokenManifest(file, f"json: {problem}", hint="correct the JSON there")


def _yaml_documents(text: str, file: str, warnings: list[str]) -> list[Any]:
    found: list[Any] = []
    try:
        for number, each in enumerate(documents(text), 1):
            found.append(each.value)
            warnings += [
                f'{file}, document {number}: line {line}: key "{key}" stands twice in one map; the last counts'
                for key, line in each.repeated
            ]
    except InvalidYaml as exc:
        raise BrokenManifest(file, exc.message, hint="correct the YAML there") from exc
    return found
