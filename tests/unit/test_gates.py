"""Feature gates: the table, `--feature-gates`, and what each mistake is answered with."""

from __future__ import annotations

import pytest

from tonnage.gates import GateError, Gates

KNOWN = (
    "AllAlpha, AllBeta, CSIStorageCapacityV2, ClearingNominatedNodeNameAfterBinding, MutableCSINodeAllocatableCount, "
    "MutablePVNodeAffinity, NominatedNodeNameForExpectation, StorageCapacityScoring, VolumeCapacityPriority, "
    "VolumeLimitScaling"
)


def on(gates: Gates) -> set[str]:
    return {name for name in gates.table() if gates.enabled(name)}


def test_every_gate_is_on_by_default() -> None:
    assert on(Gates()) == set(Gates.table())
    assert Gates().warnings == ()


def test_the_table_has_upstreams_stages() -> None:
    assert {name: (str(gate.stage), gate.kep) for name, gate in Gates.table().items()} == {
        "CSIStorageCapacityV2": ("ALPHA", 5925),
        "ClearingNominatedNodeNameAfterBinding": ("BETA", 5278),
        "MutableCSINodeAllocatableCount": ("GA", 4876),
        "MutablePVNodeAffinity": ("ALPHA", 5381),
        "NominatedNodeNameForExpectation": ("BETA", 5278),
        "StorageCapacityScoring": ("ALPHA", 4049),
        "VolumeCapacityPriority": ("DEPRECATED", 4049),
        "VolumeLimitScaling": ("ALPHA", 5030),
    }


def test_a_gate_is_read_as_an_attribute_or_by_name() -> None:
    gates = Gates.parse("StorageCapacityScoring=false")
    assert gates.CSIStorageCapacityV2 is True
    assert gates.StorageCapacityScoring is False
    assert gates.enabled("StorageCapacityScoring") is False
    assert Gates.table()["StorageCapacityScoring"].meaning == "rank nodes by their free storage"


@pytest.mark.parametrize("value", ["0", "f", "F", "FALSE", "false", "False"])
def test_every_spelling_of_false_switches_off(value: str) -> None:
    assert not Gates.parse(f"MutablePVNodeAffinity={value}").MutablePVNodeAffinity


@pytest.mark.parametrize("value", ["1", "t", "T", "TRUE", "true", "True"])
def test_every_spelling_of_true_switches_on(value: str) -> None:
    assert Gates.parse(f"AllAlpha=false,MutablePVNodeAffinity={value}").MutablePVNodeAffinity


def test_spaces_and_empty_pairs_do_no_harm() -> None:
    assert Gates.parse("") == Gates.parse(" , ,") == Gates()
    gates = Gates.parse(" VolumeLimitScaling = false, ,MutablePVNodeAffinity=false,")
    assert on(Gates()) - on(gates) == {"VolumeLimitScaling", "MutablePVNodeAffinity"}


def test_a_whole_stage_is_set_but_for_what_is_set_by_name() -> None:
    # Whichever comes first, the name wins.
    for text in ("AllAlpha=false,StorageCapacityScoring=true", "StorageCapacityScoring=true,AllAlpha=false"):
        gates = Gates.parse(text)
        assert on(Gates()) - on(gates) == {"CSIStorageCapacityV2", "MutablePVNodeAffinity", "VolumeLimitScaling"}
    gates = Gates.parse("AllBeta=false")
    assert on(Gates()) - on(gates) == {
        "NominatedNodeNameForExpectation",
        "ClearingNominatedNodeNameAfterBinding",
    }


def test_the_old_name_sets_and_answers_for_the_new_one() -> None:
    gates = Gates.parse("VolumeCapacityPriority=false")
    assert (gates.VolumeCapacityPriority, gates.StorageCapacityScoring) == (False, False)
    assert gates == Gates.parse("StorageCapacityScoring=false")
    assert list(gates.warnings) == [
        "setting deprecated feature gate VolumeCapacityPriority=false. It will be removed in a future release; "
        "set StorageCapacityScoring=false instead."
    ]
    assert Gates.parse("AllAlpha=false,VolumeCapacityPriority=true").StorageCapacityScoring


def test_the_new_name_wins_over_the_old_one() -> None:
    gates = Gates.parse("StorageCapacityScoring=true,VolumeCapacityPriority=false")
    assert (gates.VolumeCapacityPriority, gates.StorageCapacityScoring) == (True, True)
    assert list(gates.warnings) == [
        "setting deprecated feature gate VolumeCapacityPriority=false has no effect beside StorageCapacityScoring. "
        "Leave it out."
    ]


def test_setting_a_settled_gate_is_warned_about() -> None:
    gates = Gates.parse("MutableCSINodeAllocatableCount=false")
    assert not gates.MutableCSINodeAllocatableCount
    assert list(gates.warnings) == [
        "setting GA feature gate MutableCSINodeAllocatableCount=false. It will be removed in a future release."
    ]


@pytest.mark.parametrize(
    ("text", "gate", "message"),
    [
        (
            "StorageCapacityScorin=true",
            "StorageCapacityScorin",
            "unrecognized feature gate: StorageCapacityScorin; did you mean StorageCapacityScoring?",
        ),
        ("allalpha=true", "allalpha", "unrecognized feature gate: allalpha; did you mean AllAlpha?"),
        ("Xyzzy=true", "Xyzzy", "unrecognized feature gate: Xyzzy"),
        ("AllAlpha", "AllAlpha", "missing bool value for AllAlpha; write AllAlpha=true or AllAlpha=false"),
        ("AllAlpha=yes", "AllAlpha", "invalid value of AllAlpha=yes; write AllAlpha=true or AllAlpha=false"),
        (
            "VolumeLimitScaling=true,VolumeLimitScaling=false",
            "VolumeLimitScaling",
            "feature gate VolumeLimitScaling is set more than once; leave one of them",
        ),
    ],
)
def test_a_mistake_in_feature_gates_is_named(text: str, gate: str, message: str) -> None:
    with pytest.raises(GateError) as refused:
        Gates.parse(text)
    assert (str(refused.value), refused.value.gate) == (message, gate)


def test_an_unknown_name_lists_the_known_ones_also_when_it_is_read() -> None:
    for ask in (lambda: Gates.parse("Xyzzy=true"), lambda: Gates().enabled("Xyzzy"), lambda: Gates().with_(Xyzzy=True)):
        with pytest.raises(GateError) as refused:
            ask()
        assert refused.value.hint == f"the known gates are {KNOWN}"
    with pytest.raises(AttributeError):
        _ = Gates().Xyzzy  # type: ignore[attr-defined]  # that it is refused is the point


def test_gates_do_not_change() -> None:
    gates = Gates()
    without = gates.with_(StorageCapacityScoring=False)
    assert (gates.StorageCapacityScoring, without.StorageCapacityScoring) == (True, False)
    assert gates != without and hash(gates) == hash(Gates())
    with pytest.raises(AttributeError, match="cannot assign to field"):
        gates.StorageCapacityScoring = False  # type: ignore[misc]  # that it is refused is the point


def test_gates_are_written_as_the_flag_that_makes_them() -> None:
    gates = Gates.parse("AllAlpha=false")
    assert str(gates) == (
        "CSIStorageCapacityV2=false,ClearingNominatedNodeNameAfterBinding=true,MutableCSINodeAllocatableCount=true,"
        "MutablePVNodeAffinity=false,NominatedNodeNameForExpectation=true,StorageCapacityScoring=false,"
        "VolumeLimitScaling=false"
    )
    assert Gates.parse(str(gates)) == gates


def test_what_is_on_here_and_off_in_a_release_of_kubernetes_is_told_by_the_table():
    alpha = ["CSIStorageCapacityV2", "MutablePVNodeAffinity", "StorageCapacityScoring", "VolumeLimitScaling"]
    assert Gates().on_beyond((1, 36)) == alpha
    # NominatedNodeNameForExpectation and its clearing came on with 1.35, and so did MutableCSINodeAllocatableCount.
    assert set(Gates().on_beyond((1, 34))) - set(alpha) == {
        "ClearingNominatedNodeNameAfterBinding",
        "MutableCSINodeAllocatableCount",
        "NominatedNodeNameForExpectation",
    }
    assert "StorageCapacityScoring" not in Gates().with_(StorageCapacityScoring=False).on_beyond((1, 36))
