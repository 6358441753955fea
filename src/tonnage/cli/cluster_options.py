"""The options of every command that asks something about a cluster: files, a live cluster, or files laid over one.

    @cluster_options
    def fit(cluster: ClusterQuestion, …):
        state = cluster.state(user_agent="tonnage-fit", with_workloads=True)

With -f alone the files are all there is. Otherwise the cluster is the one of --kubeconfig, else of $KUBECONFIG, else of
the usual file; with both, the files are laid over it. --context and --namespace are kubectl's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.completion import contexts, files, namespaces
from tonnage.cli.options import EXISTING_FILE, FILE_PATH, F, Option, feature_gates, from_flags, options
from tonnage.cli.output import say, say_all
from tonnage.endpoints import ENDPOINTS_FILE_NAME, Endpoint, read_endpoints
from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.private_files import NotOurs

if TYPE_CHECKING:
    from tonnage.client.config.connection import KubeconfigUser, ServerConnection
    from tonnage.scheduling.configuration.configuration import Configuration
    from tonnage.scheduling.plugins.registry import ForeignPlugins
    from tonnage.whatif.creation import Creation
    from tonnage.whatif.html.page import HtmlPage
    from tonnage.whatif.sources import ClusterState


@dataclass
class ClusterQuestion:
    """Which cluster is meant, and how its scheduler is configured. What is to be said about either is said here."""

    files: tuple[str, ...] = ()
    kubeconfig_file: Path | None = None
    context: str = ""
    given_namespace: str = ""
    scheduler_endpoint: str | None = None
    scheduler_ca_file: Path | None = None
    scheduler_token_file: Path | None = None
    config_file: Path | None = None
    gates: Gates = field(default_factory=Gates)

    def __post_init__(self) -> None:
        say_all("warning", self.gates.warnings)

    @property
    def is_live(self) -> bool:
        return not self.files or self.kubeconfig_file is not None or bool(self.context)

    @property
    def namespace(self) -> str:
        return self.given_namespace or (self.connection.namespace if self.is_live else "") or "default"

    @cached_property
    def connection(self) -> ServerConnection:
        """How the live cluster is reached. Raises InvalidKubeconfig, or UsageError when there is nothing to ask."""
        from tonnage.client.config import kubeconfig

        try:
            return kubeconfig.load(self.kubeconfig_file, context=self.context)
        except kubeconfig.NoKubeconfig as exc:
            raise click.UsageError(f"give manifests with -f or a cluster with --kubeconfig; {exc.message}") from exc

    @cached_property
    def creation(self) -> Creation:
        from tonnage.whatif.creation import Creation

        return Creation(self.gates)

    @cached_property
    def foreign(self) -> ForeignPlugins:
        from tonnage.scheduler.configuration_file import foreign_plugins

        return foreign_plugins()

    @cached_property
    def configuration(self) -> Configuration:
        """The scheduler's configuration; what a file says without effect is noted. Raises ConfigurationError."""
        from tonnage.scheduler.configuration_file import load_configuration

        found = load_configuration(self.config_file, self.gates, self.foreign)
        say_all("note", found.notes)
        return found

    def state(self, *, user_agent: str, with_workloads: bool = False, without: Path | None = None) -> ClusterState:
        """The cluster as it is now; `without` is a file in a folder of theirs that holds no manifests. Raises
        TonnageError for files that are wrong and clusters that do not answer."""
        from tonnage.whatif.sources import from_cluster, from_files, laid_over

        if not self.is_live:
            found = from_files(self.files, self.creation, with_workloads=with_workloads, without=without)
        else:
            found = asyncio.run(
                from_cluster(
                    self.connection,
                    self.scheduler(),
                    with_workloads=with_workloads,
                    user_agent=user_agent,
                    scheduler_user=self.scheduler_user(),
                )
            )
            if self.files:
                found = laid_over(found, self.files, self.creation, with_workloads=with_workloads, without=without)
            else:
                self.creation.know(found.objects, found.rules)
        say_all("warning", found.warnings)
        say_all("note", found.notes)
        return found

    def scheduler(self) -> Endpoint | None:
        """The scheduler that was named, else the one of the `tonnage up` in whose folder the kubeconfig lies, wherever
        that kubeconfig is named. A context that leads to another server has another scheduler."""
        url, ca_file = self.scheduler_endpoint, self.scheduler_ca_file
        if url is not None:
            if not url.startswith(("http://", "https://")):
                raise click.UsageError(f'--scheduler-endpoint "{url}": write https://HOST:PORT')
            return Endpoint(url, ca_file.read_bytes() if ca_file is not None else b"")
        if ca_file is not None or self.scheduler_token_file is not None:
            name = "--scheduler-ca" if ca_file is not None else "--scheduler-token-file"
            raise click.UsageError(f"{name} goes with --scheduler-endpoint")
        for folder in self._folders():
            try:
                found = read_endpoints(folder)
            except NotOurs as exc:
                say("warning", f"the scheduler is not asked: {exc.message}; name it with --scheduler-endpoint")
                continue
            if "scheduler" in found and self._is_served_by(found.get("apiserver")) is not False:
                return found["scheduler"]
        return None

    def _folders(self) -> list[Path]:
        """The folders of the kubeconfig files that are looked at."""
        from tonnage.client.config.kubeconfig import files_meant

        return list(dict.fromkeys(each.absolute().parent for each in files_meant(self.kubeconfig_file)))

    @property
    def embedded_folder(self) -> Path | None:
        """The folder of the `tonnage up` whose kubeconfig it is; None for any other cluster. A context of that
        kubeconfig that leads to another server is another cluster."""
        for folder in self._folders():
            try:
                if (folder / ENDPOINTS_FILE_NAME).exists() and self._is_served_from(folder):
                    return folder
            except TonnageError:  # somebody else's, or broken: then it is not known to be that cluster
                continue
        return None

    def require_folder(self, folder: Path) -> Path:
        """The folder of a `tonnage up` that was named. Raises TonnageError when this is another cluster than that one:
        what lies in the folder would be told of the wrong one, and what is made to go wrong would go wrong elsewhere.
        """
        if not self._is_served_from(folder):
            raise TonnageError(
                f"{folder} is not the folder of the cluster at {self.connection.cluster.server}",
                hint="leave --data-dir out, or name the kubeconfig of that folder's cluster",
            )
        return folder

    def _is_served_from(self, folder: Path) -> bool:
        return self._is_served_by(read_endpoints(folder).get("apiserver")) is True

    def _is_served_by(self, apiserver: Endpoint | None) -> bool | None:
        """Whether this is the server that is asked; None where none is told."""
        if apiserver is None:
            return None
        return apiserver.url.rstrip("/") == self.connection.cluster.server.rstrip("/")

    def scheduler_user(self) -> KubeconfigUser:
        """Who asks a scheduler that was named: the token's owner, else the kubeconfig's user. Raises UsageError.
        Nothing is shown to the scheduler of a `tonnage up`, which asks for nothing, nor without TLS. A password, and
        whom one impersonates, are for the API server alone."""
        from tonnage.client.config.connection import Impersonation, KubeconfigUser

        url, token_file = self.scheduler_endpoint or "", self.scheduler_token_file
        if token_file is not None:
            if not url.startswith("https://"):
                raise click.UsageError(f"--scheduler-token-file: a token is sent over https alone, not to {url}")
            return KubeconfigUser(token_file=token_file)
        if not url.startswith("https://"):
            return KubeconfigUser()
        return replace(self.connection.user, username="", password="", impersonation=Impersonation())


_OPTIONS = (
    click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        metavar="FILE",
        shell_complete=files,
        help="Manifests: files, folders, - for stdin.",
    ),
    click.option(
        "--kubeconfig",
        "kubeconfig_file",
        type=FILE_PATH,
        help="Ask a live cluster; with -f too, the manifests are laid over it.",
    ),
    click.option(
        "--context",
        default="",
        metavar="NAME",
        shell_complete=contexts,
        help="The context of the kubeconfig; its current one.",
    ),
    click.option(
        "-n",
        "--namespace",
        "given_namespace",
        default="",
        metavar="NS",
        shell_complete=namespaces,
        help="Where none is written. The dashboard and top read pods and claims of it alone.",
    ),
    click.option(
        "--scheduler-endpoint",
        metavar="URL",
        help="Where the cluster's scheduler serves its debug pages; for a `tonnage up` cluster it is known.",
    ),
    click.option(
        "--scheduler-ca",
        "scheduler_ca_file",
        type=EXISTING_FILE,
        help="Whom to trust there: ca.crt of its --cert-dir.",
    ),
    click.option(
        "--scheduler-token-file",
        type=EXISTING_FILE,
        help="Who asks there: a bearer token.  [default: the kubeconfig's user]",
    ),
    click.option("--config", "config_file", type=FILE_PATH, help="KubeSchedulerConfiguration."),
    feature_gates,
)


def cluster_options(command: F) -> F:
    """Add the options; the command is handed a `cluster: ClusterQuestion` for them. A command that takes more files as
    arguments calls them `more_files`."""
    return _with_options(command, _OPTIONS)


def live_cluster_options(command: F) -> F:
    """The same for commands that follow a live cluster: all but files."""
    return _with_options(command, _OPTIONS[1:])


def _with_options(command: F, shown: Sequence[Option]) -> F:
    @wraps(command)
    def asked(**given: Any) -> Any:
        given.setdefault("files", ())
        given["files"] += given.pop("more_files", ())
        cluster = from_flags(ClusterQuestion, given)
        return command(cluster=cluster, **{name: given[name] for name in given.keys() - vars(cluster).keys()})

    return options(*shown)(asked)  # type: ignore[return-value]  # to click a command is its name and its options


def html_page(name: str) -> Callable[[Any], HtmlPage]:
    """How the answer of this name is drawn; loaded when it is."""

    def draw(document: Any) -> HtmlPage:
        from tonnage.whatif.html.pages import PAGES

        return PAGES[name](document)

    return draw
