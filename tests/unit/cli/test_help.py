"""What the command line says about itself: grouped commands, examples that parse, and what was probably meant."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import click
import pytest

from tonnage.cli import COMMANDS, cli, kubectl_main, main
from tonnage.cli.commands import EXAMPLES, GROUPS, examples_of
from tonnage.cli.output import columns, say


def told(monkeypatch, capsys, *arguments: str, run=main) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["tonnage", *arguments])
    with pytest.raises(SystemExit) as ended:
        run()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def command_at(words: list[str]) -> tuple[click.Context, click.Command, list[str]]:
    """The context and the command that a line calls, and its arguments."""
    ctx = click.Context(cli, info_name="tonnage")
    command: click.Command = cli
    while isinstance(command, click.Group):
        with ctx:
            name, found, words = command.resolve_command(ctx, words)
        assert found is not None
        if isinstance(found, click.Group):
            inner = found.make_context(name, list(words), parent=ctx)
            ctx, words = inner, [*inner._protected_args, *inner.args]
        command = found
    return ctx, command, words


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_line_in_the_table_is_the_first_of_the_command(name):
    (line,) = [group[name] for group in GROUPS.values() if name in group]
    for _ in range(2):  # asking again adds nothing
        command = cli.get_command(click.Context(cli), name)
        assert command is not None and command.help is not None
        assert (command.help.partition("\n\n")[0], command.help.count(line)) == (line, 1)


def test_help_groups_every_command_and_loads_none():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from tonnage.cli import cli; cli.main(['--help'], 'tonnage', standalone_mode=False);"
            "print([each for each in sys.modules if each.startswith('tonnage.') and each not in sys.argv])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    for title, group in GROUPS.items():
        assert f"{title}:" in done.stdout
        assert all(f"\n  {name} " in done.stdout for name in group)
    loaded = done.stdout.splitlines()[-1]
    assert "tonnage.cli.commands" in loaded
    assert not [module for module in COMMANDS.values() if f"'{module}'" in loaded]
    assert "tonnage.client" not in loaded and "numpy" not in loaded


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_examples_and_its_help_shows_them(monkeypatch, capsys, name):
    code, out, _ = told(monkeypatch, capsys, name, "--help")
    assert code == 0
    shown = re.sub(r" \\\n +", " ", out)  # a long example goes on in the next line, as a shell takes it
    assert all(line in shown for line in EXAMPLES[name])
    assert out.count("Examples:") == 1


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_text_of_a_help_has_one_margin(monkeypatch, capsys, name):
    _, out, _ = told(monkeypatch, capsys, name, "--help")
    text = out.partition("\n\n")[2].partition("\n\nOptions:")[0]
    assert not [line for line in text.splitlines() if re.search(r"\S {2,}\S|^ {3,}", line)]


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_the_examples_parse(line):
    words = shlex.split(line.removeprefix("source <(").rstrip(")"))
    words = words[1 : words.index(">")] if ">" in words else words[1:]
    ctx, command, arguments = command_at(words)
    assert command.make_context("it", arguments, parent=ctx) is not None


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["explian"], "error: no such command 'explian'\nhint: did you mean 'explain'?\n"),
        (["qqqq"], "error: no such command 'qqqq'\nhint: 'tonnage --help' lists the commands\n"),
        (["fault", "lst"], "error: no such command 'lst'\nhint: did you mean 'list'?\n"),
        (
            ["explain", "-o", "jsn"],
            "error: Invalid value for '-o' / '--output': 'jsn' is not one of 'table', 'json'.\n"
            "hint: did you mean 'json'?\n",
        ),
        (["--hlp"], "error: No such option '--hlp'.\nhint: did you mean '--help'?\n"),
        (
            ["explain", "--pod"],
            "error: Option '--pod' requires an argument.\nhint: 'tonnage explain --help' shows the options\n",
        ),
        (["up", "--node", "3"], "error: No such option '--node'.\nhint: did you mean '--nodes'?\n"),
    ],
)
def test_what_was_meant_is_suggested(monkeypatch, capsys, words, complaint):
    assert told(monkeypatch, capsys, *words) == (2, "", complaint)


@pytest.mark.parametrize(("words", "begins"), [([], "Usage: tonnage [OPTIONS]"), (["fault"], "Usage: tonnage fault ")])
def test_nothing_asked_is_answered_with_help(monkeypatch, capsys, words, begins):
    code, out, err = told(monkeypatch, capsys, *words)
    assert (code, err) == (0, "")
    assert out.startswith(begins)


@pytest.mark.parametrize("words", [[], ["explain"], ["fault"], ["fault", "set"], ["help"]])
def test_help_shows_what_the_flag_shows(monkeypatch, capsys, words):
    shown = told(monkeypatch, capsys, "help", *words)
    assert shown == told(monkeypatch, capsys, *words, "--help")
    assert shown[0] == 0 and shown[1].startswith(" ".join(["Usage: tonnage", *words]))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["explian"], "error: no such command 'explian'\nhint: did you mean 'explain'?\n"),
        (["fault", "lst"], "error: no such command 'lst'\nhint: did you mean 'list'?\n"),
        (
            ["version", "json"],
            "error: 'tonnage version' has no command 'json'\nhint: 'tonnage version --help' shows the options\n",
        ),
    ],
)
def test_help_of_an_unknown_command_is_a_usage_error(monkeypatch, capsys, words, complaint):
    assert told(monkeypatch, capsys, "help", *words) == (2, "", complaint)


@pytest.mark.parametrize("name", ["dashboard", "top"])
def test_commands_that_take_no_manifests_do_not_speak_of_them(monkeypatch, capsys, tmp_path, name):
    shown = told(monkeypatch, capsys, name, "--help")[1]
    assert not re.search(r"(^|[ ,])-f\b|manifest", shown)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    code, _, err = told(monkeypatch, capsys, name)
    assert code == 2 and err.startswith("error: give a cluster with --kubeconfig; no kubeconfig")


def test_as_a_plugin_of_kubectl_help_says_how_it_is_called(monkeypatch, capsys):
    code, out, _ = told(monkeypatch, capsys, "version", "--help", run=kubectl_main)
    assert code == 0
    assert out.startswith("Usage: kubectl tonnage version [OPTIONS]")
    assert examples_of("version", "kubectl tonnage").splitlines()[-1] == "  kubectl tonnage version -o json"
    assert told(monkeypatch, capsys, "vesrion", run=kubectl_main)[2].endswith("hint: did you mean 'version'?\n")


@pytest.mark.parametrize(("width", "is_narrow"), [(60, True), (200, False)])
def test_where_a_table_is_wider_than_the_terminal_the_last_cell_stands_below_the_others(monkeypatch, width, is_narrow):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    rows = [("claims-are-packed-jointly", "all claims of a pod have to fit into the pools of a node together")]
    lines = list(columns(("STORY", "WHAT IT SHOWS"), rows))
    assert max(map(len, lines)) <= width
    if is_narrow:
        below = ["   all claims of a pod have to fit into the pools of a node", "   together"]
        assert lines == ["STORY", "   WHAT IT SHOWS", "claims-are-packed-jointly", *below]
    else:
        assert lines == ["STORY                       WHAT IT SHOWS", "   ".join(rows[0])]


def test_on_a_terminal_an_error_ends_its_lines_between_words(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    code, _, err = told(monkeypatch, capsys, "fit", "-f", "examples/13-fit")
    assert code == 2
    assert err.splitlines() == [
        "error: give either --workload KIND/NS/NAME or --template",
        "FILE",
        "hint: 'tonnage fit --help' shows the options",
    ]


def test_on_a_terminal_a_note_keeps_names_and_its_own_lines_whole(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    say("note", "read from examples/24-three-parts/objects.yaml\n  a line of its own", has_lines=True)
    assert capsys.readouterr().err.splitlines() == [
        "note: read from",
        "examples/24-three-parts/objects.yaml",
        "  a line of its own",
    ]
