"""What exit codes mean, from where they are decided."""

from __future__ import annotations

from reference import code, table
from tonnage.cli.driver_check import BROKEN
from tonnage.cli.output import DOES_NOT_FIT, INTERRUPTED
from tonnage.whatif.doctor.examination import EXIT_CODES
from tonnage.whatif.doctor.facts import Severity


def page() -> str:
    rows: list[tuple[object, ...]] = [
        (
            code(0),
            "every command",
            "the job was done; of `explain`, `fit`, `drain-preview`, `simulate`, `shadow`: there is an answer, whatever it is; of `demo`: every story passed",
        ),
        (code(1), "every command", "it failed: `error: …` on stderr and, where there is one, `hint: …`"),
        (code(2), "every command", "it was asked wrongly: an unknown command or flag, a value that cannot be"),
        (
            code(DOES_NOT_FIT),
            "`explain --exit-code`",
            "a pod that was asked about does not fit; one that scheduling gates hold back does not",
        ),
        (code(EXIT_CODES[Severity.WARNING]), "`doctor`", "there are warnings, and no errors"),
        (code(EXIT_CODES[Severity.ERROR]), "`doctor`", "there are errors"),
        (code(BROKEN), "`driver-check`", "the driver breaks a contract"),
        (
            code(INTERRUPTED),
            "every command",
            'Ctrl-C; what was known by then is written and marked as partial (`"partial": true` in JSON). `shadow` ends by Ctrl-C as usual, with 0',
        ),
    ]
    return "# Exit codes\n\n" + table(("code", "of", "what it means"), rows)
