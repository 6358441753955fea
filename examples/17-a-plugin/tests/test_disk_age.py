"""The plugins alone, and in a whole decision beside the default plugins."""

from tonnage_disk_age import NewerDisks, NoServiceAhead

from tonnage.testing import claim, cluster_of, decide, filter_results, node, node_scores, pod, pod_with, volume

REASON = "node(s) were about to be serviced"


def disks_of(year: str) -> dict[str, str]:
    return {"example.com/disk-year": year}


def serviced(name: str, annotation: str = "example.com/service-on"):
    return node(name, annotations={annotation: "2026-12-01"})


def test_a_pod_with_a_claim_stays_away_from_a_node_about_to_be_serviced():
    cluster = cluster_of(node("a"), serviced("b"))
    assert filter_results(NoServiceAhead(None), cluster, pod_with("db", "data")) == {"b": (REASON,)}


def test_a_pod_without_claims_may_go_there():
    assert filter_results(NoServiceAhead(None), cluster_of(serviced("b")), pod("web")) == {}


def test_the_annotation_is_an_argument():
    plugin = NoServiceAhead({"annotation": "example.org/outage"})
    cluster = cluster_of(serviced("a"), serviced("b", "example.org/outage"))
    assert filter_results(plugin, cluster, pod_with("db", "data")) == {"b": (REASON,)}


def test_newer_disks_score_higher():
    cluster = cluster_of(
        node("a", labels=disks_of("2020")),
        node("b", labels=disks_of("2025")),
        node("c", labels=disks_of("2022")),
        node("d", labels=disks_of("soon")),
        node("e"),
    )
    # (2025 - 2020) is the whole scale; c has 2 of its 5 years.
    expected = {"a": 0, "b": 100, "c": 40, "d": 0, "e": 0}
    assert node_scores(NewerDisks(None), cluster, pod_with("db", "data")) == expected


def test_a_pod_without_claims_is_not_scored():
    assert node_scores(NewerDisks(None), cluster_of(node("a")), pod("web")) == {}


def test_both_take_part_in_a_decision():
    database = pod_with("db", "data")
    stored = (claim("data", "1Gi", volume="pv-1"), volume("pv-1", "1Gi", claim="default/data"))
    nodes = (node("old", labels=disks_of("2020")), node("new", labels=disks_of("2025")))
    assert decide(cluster_of(*nodes, *stored), database, NewerDisks, NoServiceAhead).node == "new"
    nowhere = decide(cluster_of(serviced("a"), *stored), database, NewerDisks, NoServiceAhead)
    assert nowhere.diagnosis.message() == f"0/1 nodes are available: 1 {REASON}."
