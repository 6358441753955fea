"""How shells ask, and how they are answered: click's protocol, with what its scripts leave out.

bash splits the word under the cursor at every `=` and `:`, so that `--feature-gates Name=t` reaches a program as four
words. Our script therefore hands over the line itself, and answers are cut to the part that bash will replace. Talk on
stderr is dropped in each shell: a TAB must not write over the prompt. kubectl asks with arguments and takes cobra's
answer: a value a line, a tab and a word about it, and last what else the shell may do.

`tonnage completion`: the script that makes a shell complete.
"""

from __future__ import annotations

import os
from typing import ClassVar, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

COMPLETE_VARIABLE: Final = "_TONNAGE_COMPLETE"
_KUBECTL_NO_FILES, _KUBECTL_FILES = ":4", ":0"
"""cobra's ShellCompDirectiveNoFileComp and ShellCompDirectiveDefault."""

_BASH: Final = """\
%(complete_func)s() {
    local IFS=$'\\n' completion kind value
    COMPREPLY=()
    for completion in $(env COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
%(complete_var)s=bash_complete "$1" 2>/dev/null); do
        kind="${completion%%%%,*}"
        value="${completion#*,}"
        case "$kind" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class OurBash(BashComplete):
    source_template: ClassVar[str] = _BASH

    def source(self) -> str:
        return ShellComplete.source(self)  # which bash runs the script is not known here

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE", "")
        before = line.encode()[: int(os.environ.get("COMP_POINT", len(line.encode())))].decode(errors="ignore")
        words = split_arg_string(before)
        incomplete = words.pop() if words and not before[-1].isspace() else ""
        self._replaced = replaced_part(incomplete, os.environ.get("COMP_WORDBREAKS", "=:"))
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem[str]) -> str:
        value, kept = item.value, self._replaced
        return f"{item.type},{value.removeprefix(kept) if kept else value}"


def replaced_part(incomplete: str, breaks: str) -> str:
    """What of the value is on the line already and not replaced: up to the last `=` or `:` at which bash breaks words.
    `--node=n` is a flag with the value `n`: of the value nothing is kept."""
    incomplete = incomplete.removeprefix(flag_before(incomplete))
    ends = [incomplete.rfind(each) for each in "=:" if each in breaks]
    return incomplete[: max(ends, default=-1) + 1]


class _WholeWords(ShellComplete):
    """For shells that replace the whole word under the cursor: a value behind `--flag=` is given with the flag."""

    def get_completion_args(self) -> tuple[list[str], str]:
        words, incomplete = super().get_completion_args()
        self._flag = flag_before(incomplete)
        return words, incomplete

    def format_completion(self, item: CompletionItem[str]) -> str:
        if item.type == "plain" and self._flag:
            item = CompletionItem(self._flag + item.value, item.type, item.help)
        return super().format_completion(item)


def flag_before(incomplete: str) -> str:
    """`--node=` of `--node=n`; empty for a word that is no flag with its value."""
    return incomplete[: incomplete.index("=") + 1] if incomplete.startswith("--") and "=" in incomplete else ""


class OurZsh(_WholeWords, ZshComplete):
    source_template: ClassVar[str] = ZshComplete.source_template.replace(
        "%(complete_var)s=zsh_complete %(prog_name)s)", "%(complete_var)s=zsh_complete %(prog_name)s 2>/dev/null)"
    ).replace("_path_files", "[[ $PREFIX == --*=* ]] && compset -P '*='; _path_files")


class OurFish(_WholeWords, FishComplete):
    source_template: ClassVar[str] = FishComplete.source_template.replace(
        "COMP_CWORD=(commandline -t) %(prog_name)s)", "COMP_CWORD=(commandline -t) %(prog_name)s 2>/dev/null)"
    )


SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": OurBash, "zsh": OurZsh, "fish": OurFish}


def register() -> None:
    for each in SHELLS.values():
        add_completion_class(each)


def script(shell: str, cli: click.Command, program: str) -> str:
    return SHELLS[shell](cli, {}, program, COMPLETE_VARIABLE).source()


def answer_kubectl(cli: click.Command, arguments: list[str]) -> str:
    """The answer to `kubectl_complete-tonnage ARGUMENTS…`, whose last is the word under the cursor."""
    *words, incomplete = arguments or [""]
    items = OurBash(cli, {}, "kubectl tonnage", COMPLETE_VARIABLE).get_completions(words, incomplete)
    plain = [each for each in items if each.type == "plain"]
    # kubectl offers what begins with the word: a flag's value that stands behind `=` has the flag before it.
    before = flag_before(incomplete)
    lines = [before + each.value + (f"\t{each.help.splitlines()[0]}" if each.help else "") for each in plain]
    return "\n".join([*lines, _KUBECTL_NO_FILES if len(plain) == len(items) else _KUBECTL_FILES])
