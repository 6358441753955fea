"""Every command: its group and its line in the help, its examples, and how its module is found and loaded.

The first line of a command's help stands here, not in its docstring, so that `tonnage --help` and TAB load no command,
which takes a second. A test parses every example with its command.
"""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from importlib import import_module
from typing import Final

import click
from click.shell_completion import CompletionItem

from tonnage import __version__, errors

_TABLE: Final = """\
Run a cluster
    up  Run a cluster: API server, controllers, scheduler, provisioner, nodes, and a CSI driver with pools on each.
        tonnage up
        tonnage up --data-dir cluster --dashboard
        tonnage up --data-dir cluster --nodes 5 --pools 3x100Gi -f examples/09-a-database-on-pools
    status  Show what is wrong with a cluster now, worst first; or the programs of a `tonnage up` cluster.
        tonnage status
        tonnage status --kubeconfig cluster/kubeconfig -o json
        tonnage status --data-dir cluster
    dashboard  Serve a web page that shows a cluster's storage as it changes: pools, claims, which pods wait and why.
        tonnage dashboard --kubeconfig ~/.kube/config
        tonnage dashboard --kubeconfig cluster/kubeconfig --port 0
        tonnage dashboard --bind 0.0.0.0 --allowed-host storage.example --tls-cert-file tls.crt --tls-private-key-file
            tls.key
    top  Show a cluster's storage in a terminal as it changes: pools, claims, which pods wait and why.
        tonnage top
        tonnage top --kubeconfig cluster/kubeconfig
    fault  Set, list and clear faults of a `tonnage up` cluster, such as a full disk or a silent node.
        tonnage fault --data-dir cluster list
        tonnage fault --data-dir cluster set out-of-space --node node-1
        tonnage fault --data-dir cluster clear
    fault set
        tonnage fault --data-dir cluster set out-of-space --node node-1
        tonnage fault --data-dir cluster set slow --value 2.5
    fault clear
        tonnage fault --data-dir cluster clear out-of-space --node node-1
        tonnage fault --data-dir cluster clear
    fault list
        tonnage fault --data-dir cluster list -o json
    demo  Play the enhancements' stories on fresh embedded clusters; exit 0 only if all of them pass.
        tonnage demo
        tonnage demo --list
        tonnage demo --only claims-are-packed-jointly
Scheduling
    scheduler  Place pods on any Kubernetes cluster, beside its scheduler or instead of it.
        tonnage scheduler --kubeconfig cluster/kubeconfig
        tonnage scheduler --config scheduler.yaml --leader-elect --secure-port 10259
        tonnage scheduler --kubeconfig cluster/kubeconfig --feature-gates StorageCapacityScoring=true
    explain  Show which node a pod goes to and why, or why no node fits.
        tonnage explain --pod shop/db-0
        tonnage explain --pending
        tonnage explain --workload StatefulSet/shop/db -o json
        tonnage explain -f examples/02-explain --pod shop/web-1
    shadow  Decide beside a live cluster's scheduler, and report where the two differ and why.
        tonnage shadow
        tonnage shadow --kubeconfig cluster/kubeconfig -o json > differences.json
    doctor  Check a cluster: what Tonnage can use, what is wrong, what would change, and what to set.
        tonnage doctor
        tonnage doctor --kubeconfig cluster/kubeconfig -o html > report.html
        tonnage doctor -f examples/16-doctor/dump
        tonnage doctor -o helm-values > values.yaml
What if
    fit  Count how many more replicas of a workload fit, by node and zone.
        tonnage fit --workload StatefulSet/shop/db
        tonnage fit -f examples/13-fit/cluster.yaml --template examples/13-fit/kafka.yaml
        tonnage fit --template examples/13-fit/kafka.yaml --max 100 -o json
    drain-preview  Show what draining nodes would do: which pods move where, which are stuck, which data is lost.
        tonnage drain-preview node-1 node-2
        tonnage drain-preview --one-by-one -f examples/14-drain-preview/cluster.yaml mill-1 mill-2
    simulate  Play a scenario on virtual time: which pods are placed or wait, which volumes are refused, how full disks
            get.
        tonnage simulate -f examples/15-simulate --scenario examples/15-simulate/scenarios/friday.yaml
    replay  Place pods one after the other as a running scheduler would, from files and on virtual time.
        tonnage replay -f examples/03-replay/cluster.yaml --steps examples/03-replay/steps/burst.yaml
Storage and drivers
    provisioner  Create, delete and expand the volumes of one CSI driver, and publish its free capacity.
        tonnage provisioner --csi-address unix:///run/csi/csi.sock --kubeconfig cluster/kubeconfig
        tonnage provisioner --csi-address unix:///run/csi/csi.sock --enable-capacity --capacity-poll-interval 1m
    pools  Publish the pools of drivers that report only one number for a node.
        tonnage pools --source openebs-lvm
        tonnage pools --kubeconfig cluster/kubeconfig --source topolvm
    csi-driver  Serve volumes from the pools of one or more nodes, over CSI.
        tonnage csi-driver --endpoint unix:///run/csi/csi.sock --node-id node-1 --pools 3x100Gi --state-dir driver
        tonnage csi-driver --endpoint unix:///run/csi/csi.sock --node-id node-1 --node-id node-2 --node-endpoint
            unix:///run/csi/{node}.sock --pools 2x50Gi --max-volumes 8 --state-dir driver
    csi-driver-quarantine  Show contents of a driver's pools that have no record, or move them away.
        tonnage csi-driver-quarantine --state-dir cluster/driver
        tonnage csi-driver-quarantine --state-dir cluster/driver --all
    driver-check  Check that a CSI driver does what KEP-5925 and KEP-4876 require.
        tonnage driver-check --csi-address unix:///run/csi/csi.sock
        tonnage driver-check --csi-address unix:///run/csi/csi.sock --parameters pool-policy=best-fit --fill -o json
Other programs of a cluster
    apiserver  Serve the Kubernetes API from one folder: kubectl, client-go and the Python client work with it.
        tonnage apiserver --data-dir cluster
        tonnage apiserver --data-dir cluster --secure-port 0 --event-ttl 10m
        tonnage apiserver --data-dir cluster --backup objects.sqlite3
    controllers  Bind claims, attach volumes, run workloads, watch nodes, and delete what is left over.
        tonnage controllers --kubeconfig cluster/kubeconfig
        tonnage controllers --kubeconfig cluster/kubeconfig --controllers '*,-pod-garbage-collector-controller'
    node  Run nodes: register them, keep their attach limits up to date, mount their pods' volumes over CSI.
        tonnage node --kubeconfig cluster/kubeconfig --node-name node-1 --root-dir nodes --csi-address
            unix:///run/csi/{node}.sock
    node-scaler  Add nodes for pods that cannot be placed, and remove nodes that no pod needs (for demo clusters).
        tonnage node-scaler --kubeconfig cluster/kubeconfig --template examples/13-fit/nodes/dense.yaml --max 5
Other
    completion  Print the script with which a shell completes commands, flags and values.
        source <(tonnage completion bash)
        tonnage completion zsh > ~/.zfunc/_tonnage
        tonnage completion fish > ~/.config/fish/completions/tonnage.fish
    help  Show the help of a command, or list all commands.
        tonnage help
        tonnage help explain
        tonnage help fault set
    version  Print the version, the Python version, and the Kubernetes release whose behaviour Tonnage follows.
        tonnage version
        tonnage version -o json
"""
"""Groups, their commands with the first line of their help, and below each command its examples. What is too long for a
line goes on in the next one, which is indented further."""


def _read(table: str) -> tuple[dict[str, dict[str, str]], dict[str, list[str]]]:
    """The help of commands by group, and examples by command."""
    groups: dict[str, dict[str, str]] = {}
    examples: dict[str, list[str]] = {}
    group: dict[str, str] = {}
    command = ""
    for line in re.sub(r"\n {12}", " ", table).splitlines():
        text = line.strip()
        if line.startswith(" " * 8):
            examples.setdefault(command, []).append(text)
        elif line.startswith(" "):
            command, _, help = text.partition("  ")
            if help:
                group[command] = help
        else:
            group = groups[text] = {}
    return groups, examples


GROUPS, EXAMPLES = _read(_TABLE)

_MODULES: Final = {
    "completion": "about",
    "csi-driver-quarantine": "csi_driver",
    "demo": "up",
    "doctor": "questions",
    "drain-preview": "questions",
    "fit": "questions",
    "help": "about",
    "replay": "questions",
    "shadow": "questions",
    "status": "dashboard",
    "top": "dashboard",
    "version": "about",
}
"""Modules of commands that do not have a module of their own name."""
_INTERNAL: Final = frozenset({"forkserver"})
"""Commands that only our own programs start. They are hidden from help."""
_HELP: Final = {name: help for group in GROUPS.values() for name, help in group.items()}


def module_of(command: str) -> str:
    """The module that defines a command, as a function of the command's name."""
    return f"tonnage.cli.{_MODULES.get(command) or command.replace('-', '_')}"


def examples_of(command: str, program: str = "tonnage") -> str:
    """The examples at the end of a help page, written for `program`; empty for a command without examples. A line that
    is wider than the terminal goes on in the next one, as a shell takes it."""
    width = min(shutil.get_terminal_size().columns, 80) - 2  # as wide as click writes
    fold = textwrap.TextWrapper(
        width - len("   \\"), subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    lines = [" \\\n".join(fold.wrap(each.replace("tonnage ", f"{program} ", 1))) for each in EXAMPLES.get(command, ())]
    return "\b\nExamples:\n" + textwrap.indent("\n".join(lines), "  ") if lines else ""


class HintedUsageError(click.UsageError):
    """A usage error with a hint of its own instead of a pointer to the help."""

    def __init__(self, message: str, hint: str, ctx: click.Context | None = None) -> None:
        super().__init__(message, ctx)
        self.hint = hint


class SuggestingGroup(click.Group):
    """A group that suggests similar command names and adds examples to its commands."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        return documented(command, f"{self.name} {cmd_name}") if command is not None else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            near = errors.closest(name, self.list_commands(ctx))
            hint = f"did you mean '{near[0]}'?" if near else f"'{ctx.command_path} --help' lists the commands"
            raise HintedUsageError(f"no such command '{name}'", hint, ctx)
        return super().resolve_command(ctx, args)


class LazyCommands(SuggestingGroup):
    """All commands, from the table: `--help` and TAB load none of them, and a command loads only itself."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_HELP)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _HELP and cmd_name not in _INTERNAL:
            return None
        command: click.Command = getattr(import_module(module_of(cmd_name)), cmd_name.replace("-", "_"))
        return documented(command, cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=line) for name, line in _HELP.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _HELP))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, line in group.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text(f"'{ctx.command_path} COMMAND --help' shows the options and examples of a command.")


def documented(command: click.Command, name: str) -> click.Command:
    """Put the command's line before its help and its examples after it, once."""
    if getattr(command, "_documented_as", None) != name:
        told = inspect.cleandoc(command.help or "")  # a docstring's lines are indented before Python 3.13
        command.help = "\n\n".join(filter(None, [_HELP.get(name), told]))
        context = click.get_current_context(silent=True)
        is_plugin = context is not None and (context.find_root().info_name or "").startswith("kubectl")
        program = "kubectl tonnage" if is_plugin else "tonnage"
        command.epilog = "\n\n".join(filter(None, [command.epilog, examples_of(name, program)])) or None
        command._documented_as = name  # type: ignore[attr-defined]
    return command


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name=None, version=__version__, prog_name="tonnage")
def cli() -> None:
    """Storage-aware scheduling for Kubernetes: no pod is sent to a node that cannot hold its volumes."""
