"""How this program starts another process of itself.

Installed, or from a checkout, that is `python -m tonnage`. A `tonnage.pyz` has unpacked itself into a folder that is on
no one's path but its own; the folder has a `__main__.py`, so that Python runs it by its name. A child is then of the
very version that started it, whatever has become of the file since.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tonnage


def own_command() -> list[str]:
    """The words in front of a command's name."""
    folder = Path(tonnage.__file__).parent.parent
    if (folder / "__main__.py").is_file():
        return [sys.executable, str(folder)]
    # As ./tonnage does: what happens to lie in the folder one is in is not imported.
    return [sys.executable, *(["-P"] if sys.flags.safe_path else []), "-m", "tonnage"]
