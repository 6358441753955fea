"""KubeSchedulerConfiguration as kube-scheduler 1.36.4 reads it: accepted or not, its defaults, its plugins, its words.

The cases are data, with the answers read off the real program (`--write-config-to`, and the plugins it logs at -v=2).
To ask it again, or a newer one, name the program in KUBE_SCHEDULER: then every recorded answer is compared with a fresh
one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tonnage.gates import Gates
from tonnage.scheduling.configuration.configuration import Configuration, ConfigurationFile, parse
from tonnage.scheduling.configuration.plugin_args import PluginArgs
from tonnage.scheduling.configuration.profile_plugins import ExtensionPoint
from tonnage.scheduling.configuration.strict_decoding import ConfigurationError, read

DATA = yaml.load((Path(__file__).parent / "scheduler_configuration_1_36.yaml").read_text(), yaml.CSafeLoader)
CASES = DATA["cases"]
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
KUBE_SCHEDULER = os.environ.get("KUBE_SCHEDULER", "")

Doc = dict[str, Any]


def text_of(case: Doc) -> str:
    return str(case["text"]) if "text" in case else HEAD + str(case["config"])


def read_by_us(case: Doc) -> Configuration:
    gates = Gates().with_(StorageCapacityScoring="gates" in case)  # off in kube-scheduler, unless a case switches it on
    return parse(text_of(case), source="scheduler.yaml", gates=gates)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_file_means_what_it_means_to_kube_scheduler(case: Doc) -> None:
    if "refused" in case:
        with pytest.raises(ConfigurationError) as refusal:
            read_by_us(case)
        assert told_by_us(refusal.value) == case.get("ours", plain_words(case["refused"]))
        return
    configuration = read_by_us(case)
    expected = with_defaults(case["accepted"])
    assert fields_of(configuration) == typed_fields(expected["fields"])
    assert {profile.scheduler_name: shown(profile.points) for profile in configuration.profiles} == {
        name: profile["points"] for name, profile in expected["profiles"].items()
    }
    for profile in configuration.profiles:
        found = {name: args for name, args in profile.args.items() if name != "StorageCapacity"}
        recorded = expected["profiles"][profile.scheduler_name]["args"]
        assert found == {name: typed_args(found[name], args) for name, args in recorded.items()}


@pytest.mark.skipif(not KUBE_SCHEDULER, reason="KUBE_SCHEDULER does not name a kube-scheduler")
def test_the_recorded_answers_are_those_of_the_real_program(tmp_path: Path) -> None:
    for case in CASES:
        answer = read_by_kube_scheduler(text_of(case), case.get("gates", ""), tmp_path)
        recorded = {"refused": case["refused"]} if "refused" in case else with_defaults(case["accepted"])
        assert answer == recorded, case["name"]


def with_defaults(accepted: Doc) -> Doc:
    """A recorded answer in full: the data holds only what differs from the default configuration's answer."""
    default = DATA["default"]
    fields = {**default["fields"], **accepted.get("fields", {})}
    base = default["profiles"]["default-scheduler"]
    profiles: Doc = {}
    for name, profile in accepted.get("profiles", {"default-scheduler": {}}).items():
        points = {**base["points"], **profile.get("points", {})}
        args = {**base["args"], **profile.get("args", {})}
        profiles[name] = {
            "points": {point: plugins for point, plugins in points.items() if plugins},
            "args": {plugin: value for plugin, value in args.items() if plugin not in profile.get("without_args", ())},
        }
    return {"fields": fields, "profiles": profiles}


# -- our side ---------------------------------------------------------------------------------------------------------


def told_by_us(error: ConfigurationError) -> str:
    """Our sentence, without the paths we put before those that kube-scheduler tells without one."""
    told = error.message.removeprefix("scheduler.yaml: ")
    told = re.sub(r"profiles\[\d+\]\.plugins\.\w+(\.enabled)?: (?=\w+Plugin |plugin |only|at |total )", "", told)
    told = re.sub(r"profiles\[\d+\]\.pluginConfig: (?=different)", "", told)
    return re.sub(r"profiles\[\d+\]\.pluginConfig\[\d+\]\.args\.(?=ignored|scoringStrategy)", "", told)


def fields_of(configuration: Configuration) -> Doc:
    return {
        name: getattr(configuration, name)
        for name in ConfigurationFile.__struct_fields__
        if name not in ("api_version", "kind", "profiles", "extenders")
    }


def shown(points: Any) -> Doc:
    """Names by point, `name=weight` where it is weighed; points without plugins are left out."""
    return {
        str(point): [f"{name}={weight}" if weight else name for name, weight in plugins]
        for point, plugins in points.items()
        if plugins
    }


def typed_fields(recorded: Doc) -> Doc:
    problems: list[Any] = []
    found = read(ConfigurationFile, recorded, "", problems)
    assert not problems
    names = (each for each in ConfigurationFile.__struct_fields__ if each not in ("api_version", "kind", "profiles"))
    fields = {name: getattr(found, name) for name in names if name != "extenders"}
    return {**fields, "enable_contention_profiling": bool(fields["enable_contention_profiling"])}


def typed_args(ours: Any, recorded: Any) -> Any:
    if not isinstance(ours, PluginArgs):
        return recorded
    problems: list[Any] = []
    found = read(type(ours), recorded, "", problems)
    assert not problems
    return found


# -- kube-scheduler's side --------------------------------------------------------------------------------------------


def plain_words(refusal: str) -> str:
    """What it says is wrong, without what it was doing meanwhile."""
    refusal = re.sub(r"^initializing profiles: (creating profile for scheduler name \S+: )?", "", refusal)
    return re.sub(r'^(initializing plugin "\w+": |(placement )?score plugins: )', "", refusal)


def read_by_kube_scheduler(text: str, gates: str, folder: Path) -> Doc:
    """Let the real program read a text and say what it made of it; it exits before it would do any work."""
    (folder / "in.yaml").write_text(text)
    command = [KUBE_SCHEDULER, "--config", str(folder / "in.yaml"), "--write-config-to", str(folder / "out.yaml")]
    command += ["--master", "https://127.0.0.1:1", "--secure-port", "0", "-v=2"]
    command += ["--feature-gates", gates] if gates else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        return {"refused": _refusal(done.stderr)}
    config = yaml.safe_load((folder / "out.yaml").read_text())
    lines = (line for line in done.stderr.splitlines() if "starts to work with those plugins" in line)
    points = [json.loads(line.partition("Plugins=")[2]) for line in lines]
    return {
        "fields": {name: value for name, value in config.items() if name not in ("apiVersion", "kind", "profiles")},
        "profiles": {
            profile["schedulerName"]: {"points": _points(points[idx]), "args": _args(profile.get("pluginConfig", []))}
            for idx, profile in enumerate(config["profiles"])
        },
    }


def _refusal(log: str) -> str:
    if one_line := re.search(r'"command failed" err=(".*")', log):
        return str(json.loads(one_line[1]))
    several = re.search(r'"command failed" err=<\n(.*?)\n >', log, re.DOTALL)
    assert several is not None, log
    return several[1].replace("\t", "")


def _points(plugins: Doc) -> Doc:
    found = {str(point): plugins[f"{point[0].upper()}{point[1:]}"]["Enabled"] or [] for point in ExtensionPoint}
    return shown({point: [(each["Name"], each["Weight"]) for each in listed] for point, listed in found.items()})


def _args(plugin_config: list[Doc]) -> Doc:
    found: Doc = {}
    for entry in plugin_config:
        args = entry["args"]
        is_ours = isinstance(args, dict) and args.get("apiVersion") == "kubescheduler.config.k8s.io/v1"
        found[entry["name"]] = (
            {name: value for name, value in args.items() if name not in ("apiVersion", "kind")} if is_ours else args
        )
    return found
