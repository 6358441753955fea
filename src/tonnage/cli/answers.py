"""How a question's answer is written: as text, as JSON, or as an HTML page."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tonnage.cli.output import written, written_json

if TYPE_CHECKING:
    from tonnage.whatif.page import TextPage


def write_answer(
    output: str,
    document: Callable[[], Any],
    show: Callable[[TextPage], object],
    page: str = "",
) -> None:
    """Write an answer as -o asks: as JSON, as the HTML page of this name, drawn from the document, or as text."""
    if output == "json":
        written_json(document())
    elif output == "html":
        from tonnage.whatif.html.pages import PAGES

        data = PAGES[page](document()).html().encode()  # UTF-8, even if the terminal's encoding differs
        written(lambda: sys.stdout.buffer.write(data))
    else:
        from tonnage.whatif.page import TextPage

        written(lambda: show(TextPage(sys.stdout)))
