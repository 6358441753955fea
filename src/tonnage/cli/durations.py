"""Durations on the command line, in Go's form: `50s`, `1m30s`, `1.5h`, `0`; the program gets seconds."""

from __future__ import annotations

from typing import Any

import click

from tonnage.durations import parse_duration


class DurationType(click.ParamType[float]):
    """A duration as kube-controller-manager's flags take it; not less than nothing. Gives seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        seconds = parse_duration(str(value))
        if seconds is None:
            self.fail(f'"{value}" is not a duration; write it like "50s", "1m30s" or "500ms"', param, ctx)
        if seconds < 0:
            self.fail(f'"{value}" is less than nothing', param, ctx)
        return seconds


DURATION = DurationType()
