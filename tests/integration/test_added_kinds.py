"""What docs/add_*.md add, all in one pipeline: a source, a feature column, a model and a verb from outside, built into
distributions and installed beside a copy of the project; and a gate in that copy. Used through the installed command.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forks
import pytest
from command import ROOT
from forks import ALL
from installed import Installed, install, without_pythonpath
from messages import says

pytestmark = pytest.mark.slow

PAGES = ("add_source", "add_feature", "add_model", "add_verb")
FILE = re.compile(r"^```\w+\n# (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
"""A file on a page: a block of code whose first line is its name."""
CONFIG = """\
pipeline: {name: requests, root: verified/local}
data:
  source:
    kind: access_log
    path: "logs/*.log"
    methods: [GET, POST]
label: {key: status, kind: multiclass, classes: [200, 404]}
features:
  path: {column: hashed, hash_buckets: 20}
  hour_sine:
    column: cyclical
    key: hour
    period: 24
    wave: sine
model:
  kind: residual
  width: 8
  blocks: 1
train: {epochs: 1, batch_size: 64, jit: off}
evaluate: {metrics: [accuracy]}
deploy: {push: null}
kubeflow: {image: "registry.example/headrace:1", components: {BatchGate: {memory: 1Gi}}}
"""
REGISTRY = "configs/schema/components.py"
REQUESTS = 400
STORED = '{host} - - [21/Nov/2026:{hour:02}:00:{row:02} +0000] "{method} {path} HTTP/1.1" {status} {size}\n'
EDITS = {
    "residual/model.py": ('name="width"', 'name="first"'),
    "cyclical/column.py": ("2 * math.pi", "4 * math.pi"),
    "access_log/reader.py": ("BATCH = 10_000", "BATCH = 20_000"),
}
"""What is replaced in each installed file."""
BROKEN = """\
[headrace.sources]
kafka = no_such_module:Source

[headrace.verbs]
run = nowhere:run
sing = no_such_module:sing
"""


def files_of(page: str) -> dict[str, str]:
    """Name to text of the files on a page."""
    return dict(FILE.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")))


def hour(row: int) -> int:
    return row * 7 % 24


def write_logs(folder: Path) -> None:
    """A quarter of the requests has a method that the config leaves out."""
    folder.mkdir()
    lines = [
        STORED.format(
            host=f"10.0.0.{row}",
            hour=hour(row),
            row=row % 60,
            method=("GET", "POST", "GET", "HEAD")[row % 4],
            path=f"/page/{row % 9}",
            status=404 if row % 9 == 0 else 200,
            size="-" if row % 5 == 0 else row,
        )
        for row in range(REQUESTS)
    ]
    (folder / "a.log").write_text("".join(lines[:150]))
    (folder / "b.log").write_text("".join(lines[150:]))


def add_gate(sources: Path) -> None:
    """Put the files of docs/add_component.md into a copy of the project, and its line behind that of `data_gate`."""
    files = files_of("add_component")
    registry, line = sources / REGISTRY, files.pop(REGISTRY)
    before, after = registry.read_text(encoding="utf-8").split("    drift: BaseNode | None")
    registry.write_text(f"{before}{line}    drift: BaseNode | None{after}", encoding="utf-8")
    for name, text in files.items():
        file = sources / name
        file.parent.mkdir(exist_ok=True)
        (file.parent / "__init__.py").touch()
        file.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Added:
    """The copy of the project with what the pages add, and a user's folder."""

    project: Installed
    folder: Path

    @property
    def site(self) -> Path:
        return self.project.sources.parent

    def headrace(self, *arguments: str, **own: str) -> subprocess.CompletedProcess[str]:
        return self.project.headrace(*arguments, cwd=self.folder, **own)

    def python(self, program: str, *arguments: str) -> str:
        """What a program prints, run with no folder of its own in the search path."""
        command = [str(self.project.environment / "bin" / "python"), "-P", program, *arguments]
        done = forks.run(command, cwd=self.folder, env=without_pythonpath())
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def refused(self, *arguments: str) -> str:
        """What the command writes to standard error when it fails."""
        return self.failed(*arguments).stderr

    def failed(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = self.project.environment / "bin" / "headrace"
        done = forks.run([str(program), *arguments], cwd=self.folder, env=without_pythonpath())
        assert done.returncode, done.stdout
        assert "Traceback" not in done.stdout + done.stderr
        return done

    def mistakes(self, wrong: Mapping[str, str]) -> list[str]:
        """What is said of the config with these texts replaced, without what is only noted."""
        text = CONFIG
        for right, other in wrong.items():
            assert right in text
            text = text.replace(right, other)
        (self.folder / "mine.yaml").write_text(text)
        said = self.refused("validate", "mine.yaml").splitlines()
        return [line for line in said if not line.startswith("note: ")]

    def next_run(self) -> dict[str, list[str]]:
        """The components that the next run would compute, with the reasons."""
        return {one["component"]: one["reasons"] for one in self._foretold() if one["result"] == "would run"}

    def components(self, *overrides: str) -> set[str]:
        """The components of the next run."""
        return {one["component"] for one in self._foretold(*overrides)}

    def _foretold(self, *overrides: str) -> list[dict[str, Any]]:
        said = self.headrace("explain-cache", "requests.yaml", "--next", "--json", *overrides).stdout
        return list(json.loads(said)["components"])


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Added:
    folder = tmp_path_factory.mktemp("added")
    project = install(folder / "installed", editable=False)
    for page in PAGES:
        for name, text in files_of(page).items():
            file = folder / page / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    add_gate(project.sources)
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    target = ["--target", str(project.sources.parent), "--disable-pip-version-check"]
    subprocess.run([*pip, *target, *(str(folder / page) for page in PAGES)], check=True, env=without_pythonpath())
    mine = folder / "mine"
    mine.mkdir()
    write_logs(mine / "logs")
    (mine / "requests.yaml").write_text(CONFIG)
    return Added(project, mine)


@pytest.fixture(scope="module")
def verified(added: Added) -> Path:
    """A run here, compared with the tasks of what was compiled for Kubeflow: the command fails if they differ."""
    said = added.headrace("verify", "requests.yaml", "--keep", "verified", **{ALL: "1"}).stdout
    assert re.search(r"^same +Evaluator\.evaluation", said, re.MULTILINE)
    (run,) = (added.folder / "verified/local/requests/runs").iterdir()
    return run


def test_help_and_the_json_schema_show_what_is_installed_and_the_reference_does_not(added: Added) -> None:
    listed = added.headrace("--help").stdout
    assert re.search(r"rows +Print the number of examples .* headrace-split-rows 1\.0\)", re.sub(r"\s+", " ", listed))
    schema = json.loads(added.headrace("validate", "--schema").stdout)["$defs"]
    assert schema["CyclicalFeature"]["properties"]["period"]["exclusiveMinimum"] == 0
    assert schema["AccessLogSource"]["properties"]["methods"]["description"].startswith("The methods of the requests")
    assert schema["ResidualModel"]["properties"]["kind"]["const"] == "residual"
    added.python(str(ROOT / "tools" / "config_reference.py"), "--check")


def test_mistakes_in_settings_are_reported_with_their_lines(added: Added) -> None:
    wrong = {"[GET, POST]": "[get]", "kind: residual": "kind: residuals"}
    method, model = added.mistakes(wrong)
    assert says(method, "mine.yaml:6: data.source.methods: …get; write GET")
    assert says(model, 'mine.yaml:16: model.kind: …"residuals"; allowed: table, …or residual; did you mean "residual"?')
    (key,) = added.mistakes({"key: hour": "key: hours"})
    assert says(key, 'mine.yaml:12: features.hour_sine.key: "hours" …did you mean "hour"?')
    period, wave = added.mistakes({"period: 24": "period: 0", "wave: sine": "wafe: sine"})
    assert says(period, "mine.yaml:13: features.hour_sine.period: …0; allowed: number, above 0")
    assert says(wave, 'mine.yaml:14: features.hour_sine.wafe: …: key, column, period, wave; did you mean "wave"?')


def test_an_installed_kind_is_known_by_the_endings_of_its_files(added: Added) -> None:
    added.headrace("init", "logs/*.log", "--label", "status", "-o", "found.yaml")
    assert "source: {kind: access_log, path: logs/*.log}" in (added.folder / "found.yaml").read_text()
    assert ".xls, .ods, .tfrecord, .tfrecords, .npz, .log" in added.refused("init", "notes.doc", "--label", "status")


def test_run_reads_computes_and_trains_what_the_pages_say(added: Added, verified: Path) -> None:
    counted = dict(line.split() for line in added.headrace("rows", "requests.yaml").stdout.splitlines())
    assert sum(map(int, counted.values())) == REQUESTS * 3 // 4
    (added.folder / "look.py").write_text("""
import json, headrace
run = headrace.runs("requests.yaml")[0]
missing = sum(run.examples(split)["bytes"].null_count for split in ("train", "eval", "test"))
hours, waves = run.examples("eval")["hour"].to_pylist(), run.examples("eval", transformed=True)["hour_sine"].to_pylist()
print(json.dumps([missing, hours, waves, [one.name for one in run.model().variables]]))
""")
    missing, hours, waves, weights = json.loads(added.python("look.py").splitlines()[-1])
    assert missing == sum(row % 5 == 0 and row % 4 != 3 for row in range(REQUESTS))
    expected = sorted(math.sin(2 * math.pi * each / 24) for each in hours)
    assert sorted(waves) == pytest.approx(expected, abs=1e-6)
    assert any("block_1_b" in name for name in weights)
    added.headrace("report", "requests.yaml")
    report = (verified / "report.html").read_text(encoding="utf-8")
    assert "sine over a period of 24; missing: 0" in report
    assert "residual" in report


def test_the_gate_lets_a_batch_pass_and_stops_the_run_before_transform_at_less(added: Added, verified: Path) -> None:
    counted = dict(line.split() for line in added.headrace("rows", "requests.yaml").stdout.splitlines())
    (passed,) = verified.parents[1].glob("artifacts/BatchGate/passed/*/value")
    assert passed.read_text(encoding="utf-8") == f"{counted['train']} train examples, 64 per batch"
    said = added.failed("run", "requests.yaml", "--set", f"train.batch_size={int(counted['train']) + 1}").stdout
    assert f"BatchGate failed: the train split has {counted['train']} examples" in said
    assert re.search(r"^skipped +Transform, Trainer", said, re.MULTILINE)
    assert added.components() - added.components("--set", "train.batch_size=auto") == {"BatchGate"}
    assert added.mistakes({"BatchGate": "BatchGates"}) == [
        'mine.yaml:22: kubeflow.components.BatchGates: unknown component BatchGates; did you mean "BatchGate"?'
    ]


@pytest.mark.usefixtures("verified")
def test_unchanged_code_is_reused_and_an_edit_runs_what_uses_it(added: Added) -> None:
    assert added.next_run() == {}
    for file, (old, new) in EDITS.items():
        text = (added.site / file).read_text()
        assert old in text
        (added.site / file).write_text(text.replace(old, new))
    would = added.next_run()
    assert would["ExampleGen"] == ["code access_log.reader: changed"]
    assert "code cyclical.column: changed" in would["Transform"]
    assert {"code cyclical.column: changed", "code residual.model: changed"} <= {*would["Trainer"]}
    assert not [reason for reason in would["Transform"] if "residual" in reason or "access_log" in reason]


def test_what_cannot_be_used_names_its_distribution_and_spoils_no_other_config(added: Added) -> None:
    info = added.site / "broken-3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 3.1\n")
    (info / "entry_points.txt").write_text(BROKEN)
    (said,) = added.mistakes({"kind: access_log": "kind: kafka"})
    assert said.startswith('mine.yaml:3: data.source: entry point "kafka" of broken 3.1 (group headrace.sources)')
    assert "No module named 'no_such_module'" in said
    assert "is valid" in added.headrace("validate", "requests.yaml").stdout
    assert 'entry point "sing" of broken 3.1' in added.refused("sing")
    listed = re.sub(r"\s+", " ", added.headrace("--help").stdout)
    assert "No module named 'no_such_module'" in listed
    assert '"run" is built in' in listed
