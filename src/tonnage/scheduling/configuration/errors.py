"""What is wrong with a configuration file, all of it at once.

Reading a file does not stop at the first mistake: whoever finds one appends a `Problem`, and `refuse` turns what was
found into one `ConfigurationError`, so that a person edits the file once. Sentences that people search for (unknown
field, Invalid value, does not exist) are kube-scheduler's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tonnage.errors import TonnageError
from tonnage.objects.field_errors import FieldError


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: where it is (`path`, empty for the file as a whole), what stands there, what to write instead."""

    path: str
    value: Any
    message: str
    remedy: str = ""


Problems = list[Problem]


class ConfigurationError(TonnageError):
    """A configuration that cannot be used. `path`, `value` and `remedy` are those of the first of its `problems`."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        first = problems[0]
        self.file = file
        self.problems = tuple(problems)
        self.path = first.path
        self.value = first.value
        self.remedy = first.remedy
        told = list(dict.fromkeys(problem.message for problem in problems))
        remedies = (
            [first.remedy] if len(told) == 1 else [f"{each.path}: {each.remedy}" for each in problems if each.remedy]
        )
        sentence = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
        super().__init__(f"{file}: {sentence}", hint="; ".join(dict.fromkeys(remedies)) or None)


def refuse(file: str, problems: Sequence[Problem]) -> None:
    """Raise ConfigurationError if there is any problem."""
    if problems:
        raise ConfigurationError(file, problems)


def broken_rules(errors: Iterable[FieldError]) -> Problems:
    """Field errors as problems; their sentence holds the rule, and with it the remedy."""
    return [Problem(error.field, error.value, str(error)) for error in errors]
