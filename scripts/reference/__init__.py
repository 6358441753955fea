"""The pages of docs/reference/, one module a page, each with a `page()` that reads the code and gives Markdown.

    PAGES = {"gates.md": "gates", …}          page in docs/reference/ -> module here

`scripts/write-reference` (`make reference`) writes them; tests/test_reference_current.py fails while one is not what the
code says. To add a page: a module with `page() -> str`, a line in `PAGES`, a line in docs/reference/index.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

PAGES: Final = {
    "commands.md": "commands",
    "configuration.md": "configuration",
    "storage-capacity-args.md": "storage_capacity_args",
    "names.md": "names",
    "gates.md": "gates",
    "endpoints.md": "endpoints",
    "json.md": "json_answers",
    "dashboard.md": "dashboard",
    "metrics.md": "metrics",
    "events.md": "events",
    "exit-codes.md": "exit_codes",
    "driver-checks.md": "driver_checks",
}
"""By page of docs/reference/ the module that writes it."""

WRITTEN: Final = "\n<!-- Written by scripts/write-reference from the code; `make reference` writes it again. -->\n"
"""At the end of each page: a page's title is its first line."""


def written(page: str) -> str:
    """What a page says now."""
    text: str = import_module(f"reference.{PAGES[page]}").page()
    return text.rstrip() + "\n" + WRITTEN


def cell(text: object) -> str:
    """Text in a cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def code(text: object) -> str:
    """Text as code in a cell; nothing for nothing."""
    return f"`{cell(text)}`" if str(text) else ""


def table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        f"| {' | '.join(cell(each) if i < 2 else str(each) for each in line)} |" for i, line in enumerate(lines)
    )
