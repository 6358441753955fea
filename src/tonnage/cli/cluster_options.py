"""The options of every command that answers questions about a cluster: files, a live cluster, or files laid over one.

    @cluster_options
    def fit(cluster: ClusterQuestion, …):
        state = cluster.state(user_agent="tonnage-fit", with_workloads=True)

With -f alone, the files are the whole cluster. Otherwise the cluster is that of --kubeconfig, else of $KUBECONFIG, else
of ~/.kube/config; -f files are then laid over it. --context and --namespace mean what they mean to kubectl.
"""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tonnage.cli.completion import contexts, files, namespaces
from tonnage.cli.flags.flag_table import flags_of
from tonnage.cli.output import F, Option, feature_gates, from_flags, options, say, say_all
from tonnage.endpoints import ENDPOINTS_FILE_NAME, Endpoint, read_endpoints
from tonnage.errors import TonnageError
from tonnage.gates import Gates
from tonnage.private_files import NotOurs

if TYPE_CHECKING:
    from tonnage.client.config.connection import KubeconfigUser, ServerConnection
    from tonnage.scheduling.configuration.configuration import Configuration
    from tonnage.whatif.creation import Creation
    from tonnage.whatif.scheduler_memory import SchedulerSearch
    from tonnage.whatif.sources import ClusterState


@dataclass
class ClusterQuestion:
    """Which cluster a command is about and how its scheduler is configured. Prints the notes about both."""

    files: tuple[str, ...] = ()
    kubeconfig_file: Path | None = None
    context: str = ""
    given_namespace: str = ""
    scheduler_endpoint: str | None = None
    scheduler_ca_file: Path | None = None
    scheduler_token_file: Path | None = None
    config_file: Path | None = None
    gates: Gates = field(default_factory=Gates)
    takes_files: bool = True

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
        """How to reach the live cluster. Raises InvalidKubeconfig, or UsageError when no cluster is named."""
        from tonnage.client.config import kubeconfig

        try:
            return kubeconfig.load(self.kubeconfig_file, context=self.context)
        except kubeconfig.NoKubeconfig as exc:
            manifests = "manifests with -f or " if self.takes_files else ""
            raise click.UsageError(f"give {manifests}a cluster with --kubeconfig; {exc.message}") from exc

    def command_flags(self, kubeconfig: Path | None = None) -> str:
        """What kubectl and tonnage need to reach the same cluster: the flags that were given, or this kubeconfig."""
        given = {"--kubeconfig": kubeconfig or self.kubeconfig_file, "--context": self.context}
        return " ".join(f"{flag} {shlex.quote(str(value))}" for flag, value in given.items() if value)

    @cached_property
    def creation(self) -> Creation:
        from tonnage.whatif.creation import Creation

        return Creation(self.gates)

    @cached_property
    def configuration(self) -> Configuration:
        """The scheduler's configuration. Prints a note for settings without effect. Raises ConfigurationError."""
        from tonnage.scheduler.configuration_file import load_configuration

        found = load_configuration(self.config_file, self.gates)
        say_all("note", found.notes)
        return found

    def state(self, *, user_agent: str, with_workloads: bool = False, without: Path | None = None) -> ClusterState:
        """The cluster's current state. `without` is a file to skip in a folder of manifests. Raises TonnageError for
        invalid files and for clusters that do not answer."""
        from tonnage.whatif.sources import from_cluster, from_files, laid_over

        if not self.is_live:
            found = from_files(self.files, self.creation, with_workloads=with_workloads, without=without)
        else:
            found = asyncio.run(
                from_cluster(self.connection, self.search, with_workloads=with_workloads, user_agent=user_agent)
            )
            if self.files:
                found = laid_over(found, self.files, self.creation, with_workloads=with_workloads, without=without)
            else:
                self.creation.know(found.objects, found.rules)
        say_all("warning", found.warnings)
        say_all("note", found.notes)
        return found

    def scheduler(self) -> Endpoint | None:
        """The endpoint given by the flags, else that of the `tonnage up` cluster whose folder holds the kubeconfig.
        None when the context leads to another API server."""
        url, ca_file = self.scheduler_endpoint, self.scheduler_ca_file
        if url is not None:
            if not url.startswith(("http://", "https://")):
                raise click.UsageError(f'--scheduler-endpoint "{url}": write https://HOST:PORT')
            return Endpoint(url, ca_file.read_bytes() if ca_file is not None else b"")
        for folder in self._folders():
            try:
                found = read_endpoints(folder)
            except NotOurs as exc:
                say("warning", f"not connected to the scheduler: {exc.message}; name it with --scheduler-endpoint")
                continue
            if "scheduler" in found and self._is_served_by(found.get("apiserver")) is not False:
                return found["scheduler"]
        return None

    @property
    def search(self) -> SchedulerSearch:
        """The endpoint of `scheduler`, or how to look for one in the cluster. Raises UsageError."""
        from tonnage.whatif.scheduler_memory import SchedulerSearch

        kubectl, ca_file = f"kubectl {self.command_flags()}".rstrip(), self.scheduler_ca_file
        known, ca_pem = self.scheduler(), ca_file.read_bytes() if ca_file is not None else b""
        user = self._user_over_tls() if known is None else self.scheduler_user()
        return SchedulerSearch(ca_pem, user, kubectl, known)

    def _folders(self) -> list[Path]:
        from tonnage.client.config.kubeconfig import files_meant

        return list(dict.fromkeys(path.absolute().parent for path in files_meant(self.kubeconfig_file)))

    @property
    def embedded_folder(self) -> Path | None:
        """The folder of the kubeconfig's `tonnage up` cluster; None if the context leads to another API server."""
        for folder in self._folders():
            try:
                if (folder / ENDPOINTS_FILE_NAME).exists() and self._is_served_from(folder):
                    return folder
            except TonnageError:  # not ours, or broken: then the cluster is not known to be that one
                continue
        return None

    def require_folder(self, folder: Path) -> Path:
        """Return the folder. Raises TonnageError unless the kubeconfig leads to the `tonnage up` cluster of that
        folder: records would be shown for, and faults set in, the wrong cluster."""
        if not self._is_served_from(folder):
            raise TonnageError(
                f"{folder} is not the folder of the cluster at {self.connection.cluster.server}",
                hint="leave --data-dir out, or name the kubeconfig of that folder's cluster",
            )
        return folder

    def _is_served_from(self, folder: Path) -> bool:
        return self._is_served_by(read_endpoints(folder).get("apiserver")) is True

    def _is_served_by(self, apiserver: Endpoint | None) -> bool | None:
        """True if the kubeconfig's server is this API server; None when there is no endpoint to compare."""
        if apiserver is None:
            return None
        return apiserver.url.rstrip("/") == self.connection.cluster.server.rstrip("/")

    def scheduler_user(self) -> KubeconfigUser:
        """The credentials for the scheduler given by the flags: the token's, else the kubeconfig user's. Raises
        UsageError.

        Empty for the scheduler of a `tonnage up` cluster, which needs none, and without TLS. Passwords and
        impersonation are sent to the API server only.
        """
        from tonnage.client.config.connection import KubeconfigUser

        url, token_file = self.scheduler_endpoint or "", self.scheduler_token_file
        if url and token_file is not None and not url.startswith("https://"):
            raise click.UsageError(f"--scheduler-token-file: a token is sent over https alone, not to {url}")
        return self._user_over_tls() if url.startswith("https://") else KubeconfigUser()

    def _user_over_tls(self) -> KubeconfigUser:
        from tonnage.client.config.connection import Impersonation, KubeconfigUser

        if self.scheduler_token_file is not None:
            return KubeconfigUser(token_file=self.scheduler_token_file)
        return replace(self.connection.user, username="", password="", impersonation=Impersonation())


_FILES, _CLUSTER, _NAMESPACE, _SHOWN, _SHOWN_NAMESPACE, _FOLLOWED, _CONTEXT, *_SCHEDULER, _CONFIG = flags_of(
    """
    -f, --filename as files FILES... <FILE>  Manifests: files, folders, - for stdin.
    --kubeconfig as kubeconfig_file FILE  Kubeconfig of a live cluster; with -f as well, the manifests are added to it
        or replace what it has. [default: $KUBECONFIG, else ~/.kube/config]
    -n, --namespace as given_namespace NAMESPACE= <NS>  Namespace of objects that are named without one.
    --kubeconfig as kubeconfig_file FILE  Kubeconfig of the cluster to show. [default: $KUBECONFIG, else ~/.kube/config]
    -n, --namespace as given_namespace NAMESPACE= <NS>  Read pods and claims of this namespace only.
    --kubeconfig as kubeconfig_file FILE  Kubeconfig of the cluster to follow. [default: $KUBECONFIG, else
        ~/.kube/config]
    --context CONTEXT= <NAME>  Context of the kubeconfig. [default: its current context]
    --scheduler-endpoint TEXT <URL>  URL of the scheduler's debug pages. [default: the endpoint of a `tonnage up`
        cluster, else the cluster's Service of Tonnage's scheduler, where it can be reached]
    --scheduler-ca as scheduler_ca_file EXISTING  CA certificate of the scheduler's endpoint: ca.crt of its --cert-dir.
    --scheduler-token-file EXISTING  Bearer token for the scheduler's endpoint. [default: the kubeconfig user's
        credentials]
    --config as config_file FILE  KubeSchedulerConfiguration file of the scheduler.
    """,
    FILES=files,
    NAMESPACE=namespaces,
    CONTEXT=contexts,
)


def _options(*shown: Option, takes_files: bool = False) -> Option:
    """Options of a cluster, which the command gets as `cluster: ClusterQuestion`."""

    def of(command: F) -> F:
        @wraps(command)
        def asked(**given: Any) -> Any:
            given.setdefault("files", ())
            given["files"] += given.pop("more_files", ())
            cluster = from_flags(ClusterQuestion, given, takes_files=takes_files)
            return command(cluster=cluster, **{name: given[name] for name in given.keys() - vars(cluster).keys()})

        return options(*shown)(asked)  # type: ignore[return-value]  # to click a command is its name and its options

    return of


cluster_options: Final = _options(
    _FILES, _CLUSTER, _NAMESPACE, _CONTEXT, *_SCHEDULER, _CONFIG, feature_gates, takes_files=True
)
"""All of them; file arguments are named `more_files`."""
file_options: Final = _options(_FILES, _CONFIG, feature_gates, takes_files=True)
"""For commands that only read files."""
followed_cluster_options: Final = _options(_FOLLOWED, _CONTEXT, _CONFIG, feature_gates)
"""For commands that follow a live cluster and ask its API server alone."""
live_cluster_options: Final = _options(_SHOWN, _SHOWN_NAMESPACE, _CONTEXT, *_SCHEDULER, _CONFIG, feature_gates)
"""For commands that follow a live cluster: all but -f."""
status_options: Final = _options(_SHOWN, _CONTEXT, *_SCHEDULER)
"""A live cluster and its scheduler."""
