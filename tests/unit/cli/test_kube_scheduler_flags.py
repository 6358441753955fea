"""Every flag of kube-scheduler 1.36 means something here, or is refused with a reason: none is unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from tonnage.cli.commands import HintedUsageError
from tonnage.cli.flags.go_flags import GoCommand
from tonnage.cli.flags.scheduler_flags import REMOVED
from tonnage.cli.output import Flags
from tonnage.cli.scheduler import scheduler
from tonnage.scheduler.configuration_file import load_configuration
from tonnage.scheduling.configuration.configuration import Configuration

# By section, with a value that kube-scheduler takes; from `options.NewOptions` and `NewSchedulerCommand` of 1.36.
ACCEPTED = {
    "misc": ["--config={config}", "--write-config-to={file}", "--master=https://10.0.0.1:6443"],
    "secure serving": [
        "--bind-address=127.0.0.1",
        "--secure-port=10259",
        "--disable-http2-serving",
        "--disable-http2-serving=false",
        "--cert-dir={folder}",
        "--tls-cert-file={file}",
        "--tls-private-key-file={file}",
        "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256",
        "--tls-min-version=VersionTLS13",
        "--http2-max-streams-per-connection=100",
        "--permit-port-sharing",
        "--permit-address-sharing=true",
    ],
    "authentication": [
        "--authentication-kubeconfig={file}",
        "--authentication-skip-lookup",
        "--authentication-token-webhook-cache-ttl=1m30s",
        "--authentication-tolerate-lookup-failure=false",
        "--client-ca-file={file}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-client-ca-file={file}",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-uid-headers=X-Remote-Uid",
        "--requestheader-username-headers=X-Remote-User",
    ],
    "authorization": [
        "--authorization-always-allow-paths=/healthz,/readyz,/livez",
        "--authorization-kubeconfig={file}",
        "--authorization-webhook-cache-authorized-ttl=10s",
        "--authorization-webhook-cache-unauthorized-ttl=10s",
    ],
    "deprecated": [
        "--contention-profiling=true",
        "--kube-api-burst=100",
        "--kube-api-content-type=application/vnd.kubernetes.protobuf",
        "--kube-api-qps=50",
        "--kubeconfig={file}",
        "--pod-max-in-unschedulable-pods-duration=5m",
        "--profiling=false",
    ],
    "leader election": [
        "--leader-elect",
        "--leader-elect=true",
        "--leader-elect=false",
        "--leader-elect-lease-duration=15s",
        "--leader-elect-renew-deadline=10s",
        "--leader-elect-resource-lock=leases",
        "--leader-elect-resource-name=kube-scheduler",
        "--leader-elect-resource-namespace=kube-system",
        "--leader-elect-retry-period=2s",
    ],
    "feature gate": [
        "--emulated-version=1.36",
        "--emulated-version=kube=1.36",
        "--min-compatibility-version=1.36",
        "--feature-gates=StorageCapacityScoring=true",
    ],
    "metrics": [
        "--allow-metric-labels=scheduler_pending_pods,queue=active",
        "--allow-metric-labels-manifest={manifest}",
        "--disabled-metrics=scheduler_pending_pods",
        "--show-hidden-metrics-for-version=1.35",
    ],
    "logs": [
        "--log-flush-frequency=5s",
        "--log-json-info-buffer-size=0",
        "--log-json-split-stream=false",
        "--log-text-info-buffer-size=0",
        "--log-text-split-stream=false",
        "--logging-format=json",
        "--v=4",
        "-v=4",
    ],
    "global": ["--help", "--version", "--version=raw"],
}
REFUSED = {
    "--tls-sni-cert-key=a.crt,a.key": "one certificate is served",
    "--tls-curve-preferences=23": "OpenSSL chooses",
    "--vmodule=scheduler=4": "not chosen by file",
    "--tls-min-version=VersionTLS10": "TLS 1.2 is the oldest",
    "--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA": "insecure",
    "--tls-cipher-suites=NONE": 'there is no "NONE"',
    "--emulated-version=1.35": "Tonnage decides as Kubernetes 1.36 does",
    "--min-compatibility-version=1.35": "Tonnage decides as Kubernetes 1.36 does",
    "--show-hidden-metrics-for-version=1.34": "Only the previous minor version is allowed",
    "--log-text-split-stream": "log lines go to stderr",
    "--log-json-split-stream=true": "log lines go to stderr",
    "--log-text-info-buffer-size=1Mi": "not held back",
    "--log-json-info-buffer-size=1Mi": "not held back",
    "--leader-elect-resource-lock=endpoints": "leases",
    "--leader-elect-resource-name=": "name the lease",
    "--feature-gates=SchedulerQueueingHints=true": "one of Kubernetes' own",
    "--feature-gates=kube:GangScheduling=true": "one of Kubernetes' own",
    "--feature-gates=NoSuchThing=true": "unrecognized feature gate: NoSuchThing",
    "--leader-elect-lease-duration=10s": "leaseDuration (10 s) must be greater than renewDeadline",
    "--leader-elect-retry-period=9s": "must be greater than retryPeriod*JitterFactor",
    "--leader-elect-renew-deadline=soon": 'is not a duration; write it like "50s"',
    "--kube-api-burst=-1": "-1 is not in the range",
    "--tls-cert-file=a.crt": "go together",
    "--requestheader-uid-headers=X-Uid": "without specifying the standard X-Remote-Uid",
    "--requestheader-group-headers=,": 'empty value in "requestheader-group-headers"',
    "--authorization-always-allow-paths=/a*b": 'only trailing * allowed in "a*b"',
    "--allow-metric-labels=metric=a": "is not METRIC,LABEL",
    "--bind-address=0.0.0.0 --unauthenticated-on-loopback": "needs a loopback --bind-address",
    "--leader-elect=perhaps": "is not a valid boolean",
}
UPSTREAM = """
allow-metric-labels allow-metric-labels-manifest authentication-kubeconfig authentication-skip-lookup
authentication-token-webhook-cache-ttl authentication-tolerate-lookup-failure authorization-always-allow-paths
authorization-kubeconfig authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
bind-address cert-dir client-ca-file config contention-profiling disable-http2-serving disabled-metrics emulated-version
feature-gates help http2-max-streams-per-connection kube-api-burst kube-api-content-type kube-api-qps kubeconfig
leader-elect leader-elect-lease-duration leader-elect-renew-deadline leader-elect-resource-lock
leader-elect-resource-name leader-elect-resource-namespace leader-elect-retry-period log-flush-frequency
log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream logging-format master
min-compatibility-version permit-address-sharing permit-port-sharing pod-max-in-unschedulable-pods-duration profiling
requestheader-allowed-names requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers
requestheader-uid-headers requestheader-username-headers secure-port show-hidden-metrics-for-version tls-cert-file
tls-cipher-suites tls-curve-preferences tls-min-version tls-private-key-file tls-sni-cert-key v version vmodule
write-config-to
""".split()  # noqa: SIM905
PROBE = {"tls_cert_file": "--tls-private-key-file={file}", "tls_private_key_file": "--tls-cert-file={file}"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Read a command line as far as the scheduler would start; what it was given, or what it said."""
    seen: list[tuple[Configuration, Flags]] = []

    async def stop(configuration: Configuration, flags: Flags, *_: Any) -> None:
        seen.append((configuration, flags))

    monkeypatch.setattr("tonnage.cli.scheduler.run", stop)
    (tmp_path / "config").write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    (tmp_path / "manifest").write_text('allowListMapping: {"scheduler_pending_pods,queue": "active"}\n')
    (tmp_path / "file").write_text("")
    places = {name: str(tmp_path / name) for name in ("config", "manifest", "file")} | {"folder": str(tmp_path)}

    def of(*words: str) -> Any:
        seen.clear()
        result = CliRunner().invoke(scheduler, [word.format(**places) for word in words], catch_exceptions=False)
        of.output = result.output  # type: ignore[attr-defined]
        if result.exit_code:
            raise click.UsageError(result.output)
        return seen[0] if seen else None

    return of


def test_all_flags_of_upstream_are_options_of_ours():
    ours = {name.lstrip("-") for param in scheduler.params for name in param.opts} | {"help"}
    assert [name for name in UPSTREAM if name not in ours] == []


def test_the_cases_here_try_each_of_them():
    words = [word for section in ACCEPTED.values() for word in section] + list(REFUSED)
    tried = {word.split()[0].partition("=")[0].lstrip("-") for word in words}
    assert set(UPSTREAM) - tried == set()


@pytest.mark.parametrize("word", [word for section in ACCEPTED.values() for word in section])
def test_a_flag_of_upstreams_is_accepted_in_its_form(run, word):
    beside = next((other for name, other in PROBE.items() if f"--{name.replace('_', '-')}=" in word), None)
    run(*filter(None, (word, beside)))


@pytest.mark.parametrize(("words", "told"), REFUSED.items())
def test_what_cannot_be_had_is_refused_with_the_reason(run, words, told):
    with pytest.raises(click.UsageError) as refused:
        run(*words.split(" "))
    assert told in " ".join(refused.value.message.split())
    assert "No such option" not in refused.value.message


def test_a_refused_flag_says_what_to_do_instead():
    with pytest.raises(HintedUsageError) as refused:
        scheduler.main(["--vmodule=x=1"], standalone_mode=False)
    assert (refused.value.message, refused.value.hint) == (
        "--vmodule is not supported: log lines are not chosen by file",
        "raise --v, and pick the loggers you want: every line names its own",
    )


@pytest.mark.parametrize("name", REMOVED)
def test_a_flag_that_kube_scheduler_once_had_is_refused_with_what_to_write_instead(name):
    with pytest.raises(HintedUsageError, match="do not have it either") as refused:
        scheduler.main([f"{name}=0"], standalone_mode=False)
    assert refused.value.hint


def test_no_flag_is_removed_that_there_is():
    assert [name for name in REMOVED if name.lstrip("-") in UPSTREAM] == []


PATHS = [
    "config",
    "kubeconfig",
    "write-config-to",
    "cert-dir",
    "tls-cert-file",
    "tls-private-key-file",
    "authentication-kubeconfig",
    "authorization-kubeconfig",
    "client-ca-file",
    "requestheader-client-ca-file",
    "allow-metric-labels-manifest",
    "record",
    "tracing-config-file",
]


@pytest.mark.parametrize("form", [lambda name: [f"--{name}="], lambda name: [f"--{name}", ""]], ids=["equals", "apart"])
def test_a_path_that_is_left_empty_is_not_given(run, form):
    _, flags = run(*(word for name in PATHS for word in form(name)))
    given = {name: value for name, value in flags.items() if isinstance(value, Path)}
    assert given == {}


def test_values_that_are_left_empty_are_not_given(run):
    empty = "master feature-gates tls-cipher-suites tls-min-version show-hidden-metrics-for-version emulated-version"
    lists = "requestheader-allowed-names requestheader-uid-headers disabled-metrics allow-metric-labels"
    run(*(f"--{name}=" for name in f"{empty} {lists}".split()))


def test_gates_are_given_in_one_list_or_in_several(run):
    _, flags = run("--feature-gates=StorageCapacityScoring=false", "--feature-gates=CSIStorageCapacityV2=false,")
    assert not flags["gates"].StorageCapacityScoring
    assert not flags["gates"].CSIStorageCapacityV2


@pytest.mark.parametrize(
    ("words", "elects"),
    [
        (["--leader-elect"], True),
        (["--leader-elect=true"], True),
        (["--leader-elect=T"], True),
        (["--leader-elect=1"], True),
        (["--leader-elect=false"], False),
        (["--leader-elect=0"], False),
        (["--no-leader-elect"], False),
        (["--leader_elect=false"], False),
        (["--no-leader-elect", "--leader-elect"], True),
        (["--leader-elect", "--no-leader-elect"], False),
        (["--leader-elect", "--secure-port=0"], True),
        ([], True),
    ],
)
def test_leader_election_is_switched_as_with_kube_scheduler(run, words, elects):
    configuration, _ = run(*words)
    assert configuration.leader_election.leader_elect is elects


def test_flags_of_leader_election_count_beside_a_configuration_file(run):
    configuration, _ = run(
        "--config={config}",
        "--leader-elect-resource-name=mine",
        "--leader-elect-resource-namespace=shop",
        "--leader-elect-lease-duration=1m30s",
        "--leader-elect-renew-deadline=1m",
        "--leader-elect-retry-period=500ms",
    )
    election = configuration.leader_election
    assert (election.resource_namespace, election.resource_name) == ("shop", "mine")
    assert (election.lease_duration_s, election.renew_deadline_s, election.retry_period_s) == (90.0, 60.0, 0.5)


def test_deprecated_flags_count_without_a_file_and_are_warned_of_beside_one(run):
    words = ("--kube-api-qps=7", "--kube-api-burst=9", "--profiling=false")
    configuration, _ = run(*words)
    assert (configuration.request_limits.qps, configuration.request_limits.burst) == (7.0, 9)
    assert not configuration.enable_profiling
    configuration, _ = run(*words, "--config={config}")
    assert (configuration.request_limits.qps, configuration.request_limits.burst) == (1000.0, 2000)
    assert configuration.enable_profiling
    assert "warning: --kube-api-qps is ignored with --config" in run.output
    assert "warning: --profiling is ignored with --config" in run.output


def test_how_long_a_pod_waits_counts_beside_a_file_too(run):
    configuration, _ = run("--config={config}", "--pod-max-in-unschedulable-pods-duration=90s")
    assert configuration.pod_max_in_unschedulable_s == 90.0


def test_the_configuration_in_force_is_written_and_reads_as_the_same(run, tmp_path):
    run("--write-config-to={folder}/written.yaml", "--leader-elect-lease-duration=20s", "--kube-api-qps=7")
    path = tmp_path / "written.yaml"
    assert yaml.safe_load(path.read_text())["leaderElection"]["leaseDuration"] == "20s"
    configuration, flags = run("--config", str(path))
    assert configuration.leader_election.lease_duration_s == 20.0
    assert configuration.request_limits.qps == 7.0
    before = load_configuration(None, flags["gates"])
    assert configuration.profiles[0].points == before.profiles[0].points
    assert configuration.profiles[0].args == before.profiles[0].args


def test_a_file_that_cannot_be_written_is_told():
    done = CliRunner().invoke(scheduler, ["--write-config-to=/no/such/folder/file"])
    assert "cannot be written" in str(done.exception)


def test_version_is_printed_before_anything_else_is_looked_at(run):
    run("--version", "--leader-elect-lease-duration=1s")
    assert run.output.startswith("tonnage ")


def test_a_switch_is_off_by_its_no_form_only_where_there_is_one():
    @click.command(cls=GoCommand)
    @click.option("--name", default="")
    def command(name: str) -> None:
        click.echo(name)

    assert CliRunner().invoke(command, ["--no-name"]).exit_code == 2
    assert CliRunner().invoke(command, ["--name", "no-name"]).output == "no-name\n"
