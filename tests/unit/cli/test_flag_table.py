"""Flags as a table: what a line says is what click is told, and a line that says nothing is refused."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from tonnage.cli.flags.flag_table import flag_table


def given(table: str, *arguments: str, **kinds: Any) -> dict[str, Any]:
    """What a command with these flags is given."""
    found: dict[str, Any] = {}
    command = click.command()(flag_table(table, **kinds)(lambda **flags: found.update(flags)))
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert not done.exit_code, done.output
    return found


def test_a_line_has_names_kind_and_default():
    assert given("--secure-port as port PORT=6443  Port.") == {"port": 6443}
    assert given("--size TEXT  Size.") == {"size": None}
    assert given("--size TEXT=  Size.") == {"size": ""}
    assert given("-f, --filename as files TEXT...  Files.", "-f", "a", "--filename", "b") == {"files": ("a", "b")}
    assert given("--remove  Remove.") == {"remove": False}
    assert given("--remove  Remove.", "--remove") == {"remove": True}


def test_the_parameter_of_a_duration_ends_in_s():
    assert given("--drop-after DURATION=1m30s  How long.") == {"drop_after_s": 90.0}
    assert given("--drop-after as patience DURATION=0  How long.") == {"patience": 0.0}


def test_switches_are_pflags():
    assert given("--profiling SWITCH=true  Serve.", "--profiling=false") == {"profiling": False}
    assert given("--profiling SWITCH  Serve.") == {"profiling": None}


@pytest.mark.parametrize(
    ("line", "argument", "message"),
    [
        ("--threads INT[1..]=1  Threads.", "--threads=0", "0 is not in the range x>=1."),
        ("--part FLOAT[0..1]=0.5  Part.", "--part=1.5", "1.5 is not in the range 0<=x<=1."),
        ("--one sum|largest  One.", "--one=least", "'least' is not one of 'sum', 'largest'."),
    ],
)
def test_a_range_and_choices_are_checked(line: str, argument: str, message: str):
    command = click.command()(flag_table(line)(lambda **flags: None))
    assert message in CliRunner().invoke(command, [argument]).output


def test_a_long_line_goes_on_and_defaults_look_alike_in_the_help():
    table = """
        --zone TEXT= <ZONE> $ZONE  Zone of the node, as the
            cloud names it. [default: none]
        --part PART=0  Part of each pool.
    """
    command = click.command()(flag_table(table, PART=click.IntRange(0, 100))(lambda **flags: None))
    told = CliRunner().invoke(command, ["--help"], terminal_width=120).output
    assert "Zone of the node, as the cloud names it.  [default: none]  [env var: ZONE]" in told
    assert "Part of each pool.  [default: 0; 0<=x<=100]" in told


def test_a_kind_may_be_a_commands_own_or_what_completes_a_text():
    def nodes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return ["node-1"]

    assert given("--node NODE...  Nodes.", "--node", "a", NODE=nodes) == {"node": ("a",)}
    with pytest.raises(KeyError, match="NODE"):
        flag_table("--node NODE...  Nodes.")


def test_a_line_without_help_or_name_is_no_flag():
    for line in ("--remove", "remove  Remove.", "--size TEXT Size."):
        with pytest.raises(ValueError, match="this is no flag"):
            flag_table(line)


def test_texts_are_separated_by_commas_and_replace_the_default():
    line = "--names TEXTS=/a,/b  Names."
    assert given(line) == {"names": ("/a", "/b")}
    assert given(line, "--names", "A, B", "--names=c") == {"names": ("A", "B", "c")}
    assert given(line, "--names=") == {"names": ()}
    assert given("--names HEADERS  Names.", "--names=X-Remote-User") == {"names": ("x-remote-user",)}
