"""The command line. One file a command; this one gathers them and turns errors into `error:` and `hint:`.

Data goes to stdout, talk to stderr. Exit 0 when the job was done, 1 when it failed, 2 when it was asked wrongly.
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

from tonnage import __version__
from tonnage.cli import completion
from tonnage.cli.commands import GROUPS, HintedUsageError, LazyCommands, module_of
from tonnage.errors import TonnageError, closest
from tonnage.printable import printable, printable_lines

COMMANDS: Final = {name: module_of(name) for name in sorted(chain(*GROUPS.values()))}
"""Every command and its module, which is loaded when the command is asked for: the API server needs no scheduler in its
memory, and a cluster of seven processes starts in a fraction of the time."""

_GIVEN: Final = re.compile(r"^'(.*)' is not ", re.DOTALL)
"""How click tells of a value that is none of the few there are."""


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name=None, version=__version__, prog_name="tonnage")
def cli() -> None:
    """Storage-aware scheduling for Kubernetes: no pod is sent to a node that cannot hold its volumes."""


def _complain(message: str, hint: str | None, *, has_lines: bool = False) -> None:
    click.echo(f"error: {printable_lines(message) if has_lines else printable(message)}", err=True)
    if hint:
        click.echo(f"hint: {printable(hint)}", err=True)


def main() -> None:
    """Run the command line and exit; every failure is told in our two lines."""
    _run("tonnage")


def kubectl_main() -> None:
    """The same as a plugin of kubectl: `kubectl tonnage explain …` runs `kubectl-tonnage explain …`."""
    _run("kubectl tonnage")


def kubectl_complete() -> None:
    """What kubectl asks on TAB: `kubectl_complete-tonnage WORD…`. Where something is wrong there are no values."""
    with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
        click.echo(completion.answer_kubectl(cli, sys.argv[1:]))


def _complete(program: str) -> NoReturn:
    """Answer a shell's TAB, or say nothing: a line that is being typed is no place for an error."""
    with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
        completion.register()
        cli.main(prog_name=program, complete_var=completion.COMPLETE_VARIABLE)
    sys.exit(0)


_NEW_OBJECTS: Final = 50_000
"""After how many new objects Python looks for circles while a command is loaded and answers: what it makes stays, and
looking after every 700 is a tenth of its time. A program that runs on looks as usual (`running`)."""


def _run(program: str) -> NoReturn:
    gc.set_threshold(_NEW_OBJECTS, 20, 20)
    if completion.COMPLETE_VARIABLE in os.environ:
        _complete(program)
    try:
        code = cli.main(prog_name=program, standalone_mode=False, complete_var=completion.COMPLETE_VARIABLE)
    except TonnageError as exc:
        _complain(exc.message, exc.hint, has_lines=exc.has_lines)
        code = 1
    except click.exceptions.NoArgsIsHelpError as exc:  # nothing was asked: that is a question, not a mistake
        click.echo(exc.ctx.get_help() if exc.ctx is not None else "")
        code = 0
    except click.UsageError as exc:
        _complain(*_told(exc, program))
        code = 2
    except click.ClickException as exc:
        _complain(exc.format_message(), None)
        code = exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130  # as a shell says of a program that Ctrl-C ended
    except Exception:  # a fault of ours: what Python tells of it may hold whatever has led to it
        click.echo(printable_lines(traceback.format_exc()), err=True, nl=False)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _told(exc: click.UsageError, program: str) -> tuple[str, str]:
    """What was wrong about the question, and what to do: what was probably meant, else where to read."""
    if isinstance(exc, HintedUsageError):
        return exc.message, exc.hint
    near = _near(exc)
    message = exc.message if isinstance(exc, click.NoSuchOption) else exc.format_message()
    return message, f"did you mean '{near[0]}'?" if near else _see_help(exc, program)


def _near(exc: click.UsageError) -> list[str]:
    """What was probably meant by a flag, or by one of a flag's few values."""
    if isinstance(exc, click.NoSuchOption) and exc.ctx is not None:
        shown = [each for each in exc.ctx.command.get_params(exc.ctx) if not getattr(each, "hidden", False)]
        return closest(exc.option_name, [name for each in shown for name in (*each.opts, *each.secondary_opts)])
    if isinstance(exc, click.BadParameter) and exc.param is not None and isinstance(exc.param.type, click.Choice):
        given = _GIVEN.match(exc.message)
        return closest(given[1], [str(each) for each in exc.param.type.choices]) if given else []
    return []


def _see_help(exc: click.UsageError, program: str) -> str:
    if exc.ctx is not None:
        command = exc.ctx.command_path
    else:  # click does not say where a flag was left without its value
        command = " ".join([program, *[word for word in sys.argv[1:2] if word in COMMANDS]])
    return f"'{command} --help' lists what there is"
