"""Profiles: order and weights of plugins, somebody else's plugins, and those that are left out."""

from __future__ import annotations

import pytest

from tonnage.errors import TonnageError
from tonnage.scheduling import framework, per_node
from tonnage.scheduling.configuration.configuration import default_configuration, parse
from tonnage.scheduling.configuration.plugin_args import (
    LegacyPools,
    NodeAffinityArgs,
    PoolFit,
    Reservation,
    StorageCapacityArgs,
)
from tonnage.scheduling.configuration.profile import ResolvedProfile
from tonnage.scheduling.configuration.profile_plugins import CATALOGUE, ExtensionPoint, KnownPlugin
from tonnage.scheduling.configuration.strict_decoding import ConfigurationError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
MINE = KnownPlugin("Mine", frozenset({ExtensionPoint.FILTER, ExtensionPoint.SCORE}))


def profile(plugins: str, *known: KnownPlugin, plugin_config: str = "[]") -> ResolvedProfile:
    text = f"{HEAD}profiles: [{{plugins: {plugins}, pluginConfig: {plugin_config}}}]\n"
    return parse(text, source="scheduler.yaml", known_plugins=known).profiles[0]


def refusal(plugins: str, *known: KnownPlugin) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        profile(plugins, *known)
    return caught.value


def names(found: ResolvedProfile, point: str) -> list[str]:
    return [plugin.name for plugin in found.points[point]]


def test_points_answer_to_the_names_of_the_file() -> None:
    default = default_configuration().profiles[0]
    assert default.points["score"] == (
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodeResourcesFit", 1),
        ("VolumeBinding", 1),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    )


def test_plugins_that_tonnage_does_not_have_are_left_out_with_the_reason() -> None:
    default = default_configuration().profiles[0]
    assert default.left_out == {
        "DynamicResources": (
            "Tonnage does not allocate devices; a pod with resource claims is refused, never placed as if it had none"
        ),
        "NodeDeclaredFeatures": (
            "Tonnage does not read the features that nodes declare; kubelets still refuse what they cannot run"
        ),
    }
    assert [plugin.name for plugin in default.plugins_at("postFilter")] == ["DefaultPreemption"]
    assert names(default, "postFilter") == ["DynamicResources", "DefaultPreemption"]


def test_a_plugin_listed_again_without_a_weight_counts_once() -> None:
    # The default weight of TaintToleration is 3, of NodeAffinity 2; naming them again forgets that.
    again = profile("{multiPoint: {enabled: [{name: TaintToleration}]}, score: {enabled: [{name: NodeAffinity}]}}")
    weights = dict(again.points[ExtensionPoint.SCORE])
    assert (weights["TaintToleration"], weights["NodeAffinity"], weights["InterPodAffinity"]) == (1, 1, 2)


def test_an_override_comes_first_and_an_addition_last() -> None:
    # NodeName is in the default set: named at the point, it overrides and leads. Mine is not: it follows all others.
    found = names(profile("{filter: {enabled: [{name: Mine}, {name: NodeName}]}}", MINE), "filter")
    assert found[0] == "NodeName"
    assert found[1] == "NodeUnschedulable"
    assert found[-1] == "Mine"


def test_somebody_elses_plugin_takes_part_where_it_says() -> None:
    found = profile(
        "{multiPoint: {enabled: [{name: Mine, weight: 4}]}}", MINE, plugin_config="[{name: Mine, args: {a: 1}}]"
    )
    assert names(found, "filter")[-1] == "Mine"
    assert found.points[ExtensionPoint.SCORE][-1] == ("Mine", 4)
    assert "Mine" not in names(found, "preFilter")
    assert found.args["Mine"] == {"a": 1}


def test_somebody_may_step_in_for_what_is_absent() -> None:
    gangs = KnownPlugin("GangScheduling", frozenset({ExtensionPoint.PERMIT}))
    found = profile("{multiPoint: {enabled: [{name: GangScheduling}]}}", gangs)
    assert "GangScheduling" not in found.left_out
    assert [plugin.name for plugin in found.plugins_at("permit")] == ["GangScheduling"]
    assert "GangScheduling" not in names(found, "preEnqueue")


def test_nobody_may_take_the_name_of_a_plugin_that_is_there() -> None:
    with pytest.raises(TonnageError) as caught:
        default_configuration(known_plugins=[KnownPlugin("NodeName", frozenset())])
    assert caught.value.message == "a plugin named NodeName already exists; give yours another name"


def test_a_plugin_class_says_where_it_takes_part() -> None:
    class Both(per_node.NodeFilter, framework.PermitPlugin):
        name = "Both"

    assert KnownPlugin.of(Both) == KnownPlugin("Both", frozenset({ExtensionPoint.FILTER, ExtensionPoint.PERMIT}))


@pytest.mark.parametrize(
    ("plugins", "message", "hint"),
    [
        (
            "{filter: {enabled: [{name: NodeAfinity}]}}",
            'profiles[0].plugins.filter.enabled: FilterPlugin "NodeAfinity" does not exist',
            'did you mean "NodeAffinity"?',
        ),
        (
            "{score: {enabled: [{name: Xyz}]}}",
            'profiles[0].plugins.score.enabled: ScorePlugin "Xyz" does not exist',
            "install the package that registers it, or leave it out",
        ),
        (
            "{multiPoint: {enabled: [{name: StorageCapacity}]}}",
            'profiles[0].plugins.multiPoint.enabled: PreFilterPlugin "StorageCapacity" does not exist',
            "leave it out: it is not a plugin but an entry of pluginConfig, which VolumeBinding reads",
        ),
        (
            "{multiPoint: {enabled: [{name: EBSLimits}]}}",
            'profiles[0].plugins.multiPoint.enabled: PreFilterPlugin "EBSLimits" does not exist',
            "leave it out: NodeVolumeLimits does what it did",
        ),
        (
            "{filter: {enabled: [{name: DefaultPreemption}]}}",
            'profiles[0].plugins.filter.enabled: plugin "DefaultPreemption" does not extend FilterPlugin plugin',
            "it takes part in postFilter, preEnqueue",
        ),
        (
            "{filter: {enabled: [{name: NodeName}, {name: NodeName}]}}",
            'profiles[0].plugins.filter.enabled: plugin "NodeName" already registered as "FilterPlugin"',
            "leave one NodeName there",
        ),
        (
            "{score: {enabled: [{name: NodeAffinity, weight: -5}]}}",
            "profiles[0].plugins.score: total score of Score plugins could overflow",
            "write weights from 1 to 100",
        ),
        (
            '{bind: {disabled: [{name: "*"}]}}',
            "profiles[0].plugins.bind: at least one bind plugin is needed for profile with scheduler name "
            '"default-scheduler"',
            "enable DefaultBinder there",
        ),
        (
            "{queueSort: {disabled: [{name: PrioritySort}]}}",
            "profiles[0].plugins.queueSort: only one queue sort plugin required for profile with scheduler name "
            '"default-scheduler", but got 0',
            "enable PrioritySort there and disable the others",
        ),
    ],
)
def test_plugins_that_cannot_run_are_refused_with_a_remedy(plugins: str, message: str, hint: str) -> None:
    error = refusal(plugins)
    assert error.message == f"scheduler.yaml: {message}"
    assert error.hint == hint


def test_two_placement_generators_are_one_too_many() -> None:
    other = KnownPlugin("Other", frozenset({ExtensionPoint.PLACEMENT_GENERATE}))
    error = refusal("{multiPoint: {enabled: [{name: TopologyPlacementGenerator}, {name: Other}]}}", other)
    assert error.message == (
        "scheduler.yaml: profiles[0].plugins.placementGenerate: at most one placement generate plugin is allowed "
        'for profile with scheduler name "default-scheduler"'
    )


def test_profiles_that_end_up_sorting_differently_are_refused() -> None:
    newest = KnownPlugin("NewestFirst", frozenset({ExtensionPoint.QUEUE_SORT}))
    text = f"""{HEAD}
profiles:
- schedulerName: a
- schedulerName: b
  plugins: {{multiPoint: {{enabled: [{{name: NewestFirst}}], disabled: [{{name: PrioritySort}}]}}}}
"""
    with pytest.raises(ConfigurationError) as caught:
        parse(text, source="scheduler.yaml", known_plugins=[newest])
    assert caught.value.message == (
        'scheduler.yaml: profiles[1].plugins.queueSort: different queue sort plugins for profile "b": "NewestFirst", '
        'first: "PrioritySort"'
    )
    assert caught.value.hint == "enable PrioritySort there"


def test_a_plugin_that_does_not_run_has_no_args() -> None:
    found = profile("{multiPoint: {disabled: [{name: NodeAffinity}]}}")
    with pytest.raises(KeyError):
        found.args_of(NodeAffinityArgs)


def test_the_catalogue_knows_upstreams_23_plugins() -> None:
    assert len(CATALOGUE) == 23


def storage_args(args: str) -> StorageCapacityArgs:
    return profile("{}", plugin_config=f"[{{name: StorageCapacity, args: {args}}}]").args_of(StorageCapacityArgs)


def test_our_own_settings_have_their_defaults() -> None:
    assert default_configuration().profiles[0].args_of(StorageCapacityArgs) == StorageCapacityArgs(
        reservation=Reservation.LEDGER,
        reservation_timeout_seconds=60,
        pool_fit=PoolFit.PREFER,
        legacy_pools=LegacyPools.BOUNDED,
    )


def test_our_own_settings_are_read() -> None:
    assert storage_args(
        "{apiVersion: tonnage.dev/v1alpha1, kind: StorageCapacityArgs, reservation: None, "
        "reservationTimeoutSeconds: 0, poolFit: Guaranteed, legacyPools: Bounded}"
    ) == StorageCapacityArgs(
        reservation=Reservation.NONE,
        reservation_timeout_seconds=0,
        pool_fit=PoolFit.GUARANTEED,
        legacy_pools=LegacyPools.BOUNDED,
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            "{reservation: Half}",
            '.reservation: Unsupported value: "Half": supported values: "Object", "Ledger", "None"',
        ),
        ("{poolFit: 3}", '.poolFit: Unsupported value: 3: supported values: "Prefer", "Possible", "Guaranteed"'),
        (
            "{reservationTimeoutSeconds: -1}",
            ".reservationTimeoutSeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
        ("{reservationTimeoutSeconds: 1m}", '.reservationTimeoutSeconds="1m" is not a whole number'),
        (
            "{kind: PoolArgs}",
            ": args for plugin StorageCapacity were not of type StorageCapacityArgs.tonnage.dev, got PoolArgs",
        ),
        ("{apiVersion: tonnage.dev/v1}", ': no kind "StorageCapacityArgs" is registered for version "tonnage.dev/v1"'),
    ],
)
def test_our_own_settings_are_as_strict(args: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        storage_args(args)
    assert caught.value.message == f"scheduler.yaml: profiles[0].pluginConfig[0].args{message}"


def test_an_unknown_setting_of_ours_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        storage_args("{reservations: Ledger}")
    assert caught.value.message == 'scheduler.yaml: unknown field "profiles[0].pluginConfig[0].args.reservations"'
    assert caught.value.hint == 'did you mean "reservation"?'
