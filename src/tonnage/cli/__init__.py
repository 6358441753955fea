"""The command line: finds and loads the commands, one file each, and turns errors into `error:` and `hint:` lines.

Answers go to stdout, notes to stderr. Exit codes: 0 success, 1 failure, 2 wrong usage.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import sys
import traceback
from itertools import chain
from typing import Final, NoReturn

import click

from tonnage.cli import completion
from tonnage.cli.commands import GROUPS, HintedUsageError, module_of
from tonnage.cli.commands import cli as cli
from tonnage.errors import TonnageError, closest
from tonnage.printable import printable_lines

COMMANDS: Final = {name: module_of(name) for name in sorted(chain(*GROUPS.values()))}
"""Every command and its module. A module is loaded only when its command runs: the API server does not load the
scheduler, and a cluster of seven processes starts several times faster."""

_GIVEN: Final = re.compile(r"^'(.*)' is not ", re.DOTALL)
"""How click's message begins for a value outside a flag's choices."""


def _complain(message: str, hint: str | None, *, has_lines: bool = False) -> None:
    from tonnage.cli.output import say

    say("error", message, has_lines=has_lines)
    if hint:
        say("hint", hint)


def main() -> None:
    """Run the command line and exit. Every failure is printed as `error:` and `hint:`."""
    _run("tonnage")


def kubectl_main() -> None:
    """Entry point of the kubectl plugin: `kubectl tonnage explain …` runs `kubectl-tonnage explain …`."""
    _run("kubectl tonnage")


def kubectl_complete() -> None:
    """Entry point for kubectl's TAB: `kubectl_complete-tonnage WORD…`. Prints no values on any failure."""
    with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
        click.echo(completion.answer_kubectl(cli, sys.argv[1:]))


def _complete(program: str) -> NoReturn:
    """Answer a shell's TAB. Failures print nothing: an error would garble the line being typed."""
    with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
        completion.register()
        cli.main(prog_name=program, complete_var=completion.COMPLETE_VARIABLE)
    sys.exit(0)


_NEW_OBJECTS: Final = 50_000
"""Allocations between two garbage collections while a command loads and answers. A command's objects stay alive, and
with Python's 700 collections take a tenth of its time. Long-running programs restore Python's setting (`running`)."""


def _run(program: str) -> NoReturn:
    gc.set_threshold(_NEW_OBJECTS, 20, 20)
    if completion.COMPLETE_VARIABLE in os.environ:
        _complete(program)
    try:
        code = cli.main(prog_name=program, standalone_mode=False, complete_var=completion.COMPLETE_VARIABLE)
    except TonnageError as exc:
        _complain(exc.message, exc.hint, has_lines=exc.has_lines)
        code = 1
    except click.exceptions.NoArgsIsHelpError as exc:  # no arguments are a request for help, not a mistake
        click.echo(exc.ctx.get_help() if exc.ctx is not None else "")
        code = 0
    except click.UsageError as exc:
        _complain(*_told(exc, program))
        code = 2
    except click.ClickException as exc:
        _complain(exc.format_message(), None)
        code = exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130  # a shell's exit code for a program ended by Ctrl-C
    except Exception:  # a bug of ours: the traceback may hold secrets
        click.echo(printable_lines(traceback.format_exc()), err=True, nl=False)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _told(exc: click.UsageError, program: str) -> tuple[str, str]:
    """The error sentence and its hint: the probable meaning, else where the help is."""
    if isinstance(exc, HintedUsageError):
        return exc.message, exc.hint
    near = _near(exc)
    message = exc.message if isinstance(exc, click.NoSuchOption) else exc.format_message()
    return message, f"did you mean '{near[0]}'?" if near else _see_help(exc, program)


def _near(exc: click.UsageError) -> list[str]:
    """Names similar to an unknown flag, or to a wrong value of a flag with choices."""
    if isinstance(exc, click.NoSuchOption) and exc.ctx is not None:
        shown = [each for each in exc.ctx.command.get_params(exc.ctx) if not getattr(each, "hidden", False)]
        return closest(exc.option_name, [name for each in shown for name in (*each.opts, *each.secondary_opts)])
    if isinstance(exc, click.BadParameter) and exc.param is not None and isinstance(exc.param.type, click.Choice):
        given = _GIVEN.match(exc.message)
        return closest(given[1], [str(choice) for choice in exc.param.type.choices]) if given else []
    return []


def _see_help(exc: click.UsageError, program: str) -> str:
    if exc.ctx is not None:
        command = exc.ctx.command_path
    else:  # click gives no context for a flag without its value
        command = " ".join([program, *[word for word in sys.argv[1:2] if word in COMMANDS]])
    return f"'{command} --help' shows the options"
