"""A configuration file as a whole: what holds without one, what is noted, what is refused, and in which words."""

from __future__ import annotations

import pytest

from tonnage.gates import Gates
from tonnage.scheduling.configuration.configuration import (
    ClientConnection,
    LeaderElection,
    default_configuration,
    parse,
)
from tonnage.scheduling.configuration.plugin_args import NodeResourcesFitArgs, VolumeBindingArgs
from tonnage.scheduling.configuration.strict_decoding import ConfigurationError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def refusal(config: str, *, head: str = HEAD) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        parse(head + config, source="scheduler.yaml")
    return caught.value


def test_without_a_file_the_defaults_of_kube_scheduler_hold() -> None:
    configuration = default_configuration()
    assert configuration.leader_election == LeaderElection(
        leader_elect=True,
        lease_duration_s=15,
        renew_deadline_s=10,
        retry_period_s=2,
        resource_lock="leases",
        resource_name="kube-scheduler",
        resource_namespace="kube-system",
    )
    assert configuration.client_connection == ClientConnection(
        kubeconfig="",
        accept_content_types="",
        content_type="application/vnd.kubernetes.protobuf",
        qps=50,
        burst=100,
    )
    assert (configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds) == (1, 10)
    assert [profile.scheduler_name for profile in configuration.profiles] == ["default-scheduler"]
    assert configuration.notes == ()


def test_an_almost_empty_file_means_the_default_configuration() -> None:
    found = parse(HEAD, source="scheduler.yaml")
    expected = default_configuration()
    assert found.profiles == expected.profiles
    assert found.leader_election == expected.leader_election


def test_an_error_holds_file_path_value_and_remedy() -> None:
    error = refusal("parallelism: many\n")
    assert error.message == 'scheduler.yaml: parallelism="many" is not a whole number'
    assert (error.file, error.path, error.value) == ("scheduler.yaml", "parallelism", "many")
    assert error.remedy == error.hint == "write a number such as 3"


def test_all_mistakes_are_told_at_once_with_a_remedy_each() -> None:
    error = refusal("parallelizm: 3\nclientConnection: {qps: fast}\nprofiles:\n- plugins: {filters: {}}\n")
    assert error.message == (
        'scheduler.yaml: [unknown field "parallelizm", clientConnection.qps="fast" is not a number, '
        'unknown field "profiles[0].plugins.filters"]'
    )
    assert error.hint == (
        'parallelizm: did you mean "parallelism"?; clientConnection.qps: write a number such as 3 or 0.5; '
        'profiles[0].plugins.filters: did you mean "filter"?'
    )
    assert [problem.path for problem in error.problems] == [
        "parallelizm",
        "clientConnection.qps",
        "profiles[0].plugins.filters",
    ]


def test_fields_of_older_versions_come_with_advice() -> None:
    error = refusal("healthzBindAddress: 0.0.0.0:10251\n")
    assert error.message == 'scheduler.yaml: unknown field "healthzBindAddress"'
    assert error.hint == "take it away and start with --bind-address and --secure-port; /healthz is served there"


def test_a_field_twice_is_named_with_its_lines() -> None:
    error = refusal("parallelism: 3\npodMaxBackoffSeconds: 20\nparallelism: 4\n")
    assert error.message == 'scheduler.yaml: duplicate field "parallelism" (lines 3 and 5)'
    assert error.hint == "leave one parallelism there"


def test_another_kind_of_file_is_refused_before_its_fields_are_judged() -> None:
    error = refusal("", head="apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
    assert error.message == 'scheduler.yaml: no kind "Pod" is registered for version "v1"'
    assert error.hint == "write apiVersion: kubescheduler.config.k8s.io/v1 and kind: KubeSchedulerConfiguration"


def test_extenders_are_not_supported() -> None:
    error = refusal("extenders: [{urlPrefix: 'http://127.0.0.1:8888/', filterVerb: filter}]\n")
    assert error.message == "scheduler.yaml: extenders: Forbidden: extenders are not supported"
    assert error.hint == "take the section away; what an extender decides can be decided by a plugin in Python"
    assert error.value == [{"urlPrefix": "http://127.0.0.1:8888/", "filterVerb": "filter"}]


def test_what_has_no_effect_is_noted() -> None:
    configuration = parse(
        HEAD
        + """
percentageOfNodesToScore: 30
profiles:
- percentageOfNodesToScore: 5
  plugins:
    multiPoint:
      enabled: [{name: GangScheduling}]
      disabled: [{name: SelectorSpread}]
    score: {disabled: [{name: NodeAfinity}]}
  pluginConfig:
  - {name: NodeResourceFit, args: {}}
  - {name: PodGroupPodsCount}
  - {name: StorageCapacity}
  - {name: NodeName, args: {strict: true}}
---
kind: another document
""",
        source="scheduler.yaml",
    )
    assert configuration.notes == (
        "only the first YAML document is read; what follows it has no effect",
        "profiles[0].percentageOfNodesToScore=5 has no effect: every node is considered, always",
        "profiles[0].plugins.multiPoint.enabled[0]: GangScheduling is left out: Tonnage places pods one by one; "
        "a pod of a pod group is refused, never placed as if it were alone",
        'profiles[0].plugins.multiPoint.disabled[0]: there is no plugin "SelectorSpread" to disable',
        'profiles[0].plugins.score.disabled[0]: there is no plugin "NodeAfinity" to disable; '
        'did you mean "NodeAffinity"?',
        'profiles[0].pluginConfig[0]: there is no plugin "NodeResourceFit", its args have no effect; '
        'did you mean "NodeResourcesFit"?',
        "profiles[0].pluginConfig[1]: PodGroupPodsCount is not enabled, its args have no effect",
        "profiles[0].pluginConfig[3]: NodeName takes no args, these have no effect",
        "percentageOfNodesToScore=30 has no effect: every node is considered, always",
    )


def test_considering_all_nodes_is_not_worth_a_note() -> None:
    assert parse(HEAD + "percentageOfNodesToScore: 100\n", source="scheduler.yaml").notes == ()


def test_a_profile_is_found_by_the_name_that_pods_use() -> None:
    configuration = parse(
        HEAD
        + """
profiles:
- schedulerName: packed
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
- schedulerName: spread
""",
        source="scheduler.yaml",
    )
    packed = configuration.profile_named("packed")
    assert packed is not None
    assert packed.args_of(NodeResourcesFitArgs).scoring_strategy.type == "MostAllocated"
    assert configuration.profile_named("default-scheduler") is None


def test_the_gate_decides_whether_storage_is_scored() -> None:
    on = default_configuration().profiles[0].args_of(VolumeBindingArgs)
    off = (
        default_configuration(gates=Gates().with_(StorageCapacityScoring=False)).profiles[0].args_of(VolumeBindingArgs)
    )
    assert on.shape is not None
    assert [(point.utilization, point.score) for point in on.shape] == [(0, 10), (100, 0)]
    assert off.shape is None


@pytest.mark.parametrize(
    ("said", "qps", "burst"),
    [
        ("", 1000, 2000),  # ours: kube-scheduler's 50 a second would be all that is placed
        ("clientConnection: {kubeconfig: /k}\n", 1000, 2000),
        ("clientConnection: {qps: 0, burst: 0}\n", 1000, 2000),  # 0 is not given, as upstream has it
        ("clientConnection: {qps: 50, burst: 100}\n", 50, 100),
        ("clientConnection: {qps: 50}\n", 50, 100),
        ("clientConnection: {burst: 7}\n", 1000, 7),
        ("clientConnection: {qps: -1}\n", -1, 100),
    ],
)
def test_how_many_requests_are_sent_is_what_the_file_says_else_our_default(said: str, qps: float, burst: int) -> None:
    limits = parse(HEAD + said, source="scheduler.yaml").request_limits
    assert (limits.qps, limits.burst) == (qps, burst)
