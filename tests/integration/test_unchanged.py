"""An unchanged run, which ends without TensorFlow: it leaves what a run with TensorFlow leaves, and whatever changes
brings TensorFlow back.

Its components that run every time are all five that there are: a curated schema and a warm start bring in the two that
most configs do without.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from command import Finished, Going, headrace, started_at_once, versions
from forks import FIRST, HEADRACE, in_program
from installed import without_pythonpath
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd

from headrace.common.locks import hold
from headrace.components.gates.verdict import DataVerdicts
from headrace.pipeline.cache_key import KeyParts
from headrace.pipeline.local.light import LIGHT, STATE
from headrace.pipeline.local.metadata import SIGNATURE
from headrace.pipeline.results.run_folder import RunFolder

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: trips.csv}, schema: schema.pbtxt}
label: {key: tip, kind: binary}
features:
  fare: {column: numeric}
  kind: {column: vocabulary, file: kinds.txt}
  double: {column: custom, function: mine.double, keys: [fare]}
model: {kind: wide_and_deep, hidden: [4]}
gates: {rows: {min: 10}, drift: {blessed: {}}}
train: {epochs: 1, batch_size: 64, warm_start: true}
evaluate: {thresholds: {auc: {min: 0.0}}, better_than_constant: false}
deploy: {push: "serving/{name}"}
predict: {source: {kind: csv, path: trips.csv}, output: scored.csv}
"""
SCHEMA = "".join(
    f'feature {{ name: "{name}" type: {type_} presence {{ min_fraction: 1 }} }}\n'
    for name, type_ in {"fare": "FLOAT", "kind": "BYTES", "tip": "INT"}.items()
)
MINE = """\
import tensorflow as tf


def double(raw):
    fare = raw["fare"]
    dense = tf.sparse.to_dense(fare) if isinstance(fare, tf.SparseTensor) else fare
    return tf.cast(tf.reshape(dense, [-1]), tf.float32) * 2.0
"""
NONE_LIGHT = """\
from headrace.pipeline.local import lazy_server
lazy_server.LIGHT = {}
"""
SPEAKING = """\
import functools
import sys
from headrace.pipeline.local import light

def speaking(function, **given):
    print("printed in the command")
    print("warned in the command", file=sys.stderr)
    return function(**given)

light.LIGHT.update({kind: functools.partial(speaking, function) for kind, function in light.LIGHT.items()})
"""
EVERY_TIME = {"Spans", "SchemaGen", "WarmStart", "Baseline", "RecordBlessing", "ModelInService"}
EVERY_TIME |= {"PredictSpans", "PublishPredictions"}
TIMES = re.compile(
    r"\d+(\.\d+)? (s|min|MB|GB)\b|\d\d:\d\d:\d\d( \+\d{4})?|(left|width):[\d.]+%"
    r"|<u style=\"[^\"]*\"></u>|(?m:^\s+$\n)"
)


def write(folder: Path) -> Path:
    rows = [f"{row % 40}.5,{'ab'[row % 2]},{int(row % 40 > 20)}\n" for row in range(400)]
    files = {"trips.yaml": CONFIG, "schema.pbtxt": SCHEMA, "mine.py": MINE, "kinds.txt": "a\nb\n"}
    for name, text in {**files, "trips.csv": "".join(["fare,kind,tip\n", *rows])}.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "trips.more.yaml").write_text("train: {epochs: 2}\n", encoding="utf-8")
    return folder


def with_tensorflow(done: Finished) -> bool:
    """Whether the process that imports TensorFlow was started."""
    return (done.folder / "logs" / "start.log").exists()


@dataclass
class Left:
    """What a run left, without its times and its id."""

    lines: list[str]
    record: dict[str, Any]
    files: dict[str, str] = field(default_factory=dict)
    metadata: list[Any] = field(default_factory=list)
    state: dict[str, bytes] = field(default_factory=dict)


def left_by(done: Finished) -> Left:
    home, own = done.folder.parents[1], done.run.run_id

    def hide(text: str) -> str:
        return TIMES.sub("", text.replace(own, "RUN"))

    lines = sorted(" ".join(hide(line).split()) for line in done.lines)
    record = json.loads(hide((done.folder / "run.json").read_text(encoding="utf-8")))
    for item in (record, *record["nodes"]):
        assert isinstance(item.pop("started"), float)
        assert isinstance(item.pop("finished"), float)
    for node in record["nodes"]:
        measured = {node.pop("peak_bytes"), node.pop("cpus")}
        assert (None in measured) == (node["status"] == "cached")
        for artifact in node["outputs"].values():
            if "RUN" in artifact["uri"]:
                assert artifact["properties"].pop(SIGNATURE)  # of the times of its files
    names = [path for path in done.folder.rglob("*") if path.is_file() and path.name not in {"start.log", "run.json"}]
    names += [path for path in home.glob(f"artifacts/*/*/{own}/**/*") if path.is_file()]
    files = {hide(str(path.relative_to(home))): hide(path.read_text(encoding="utf-8")) for path in names}
    state = {name: (home / name).read_bytes() for name in ("blessed.json", "pushed.json", "plan.json")}
    return Left(lines, record, files, [*executions(home, own, hide)], state)


def executions(home: Path, run_id: str, hide: Callable[[str], str]) -> Iterator[Any]:
    """The run's executions in ML Metadata, with their artifacts."""
    connection = mlmd.ConnectionConfig()
    connection.sqlite.filename_uri = str(home / "metadata.sqlite")
    connection.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READONLY
    store = metadata_store.MetadataStore(connection)
    run = store.get_context_by_type_and_name("pipeline_run", run_id)
    types = {type_.id: type_.name for type_ in [*store.get_artifact_types(), *store.get_execution_types()]}
    for execution in sorted(store.get_executions_by_context(run.id), key=lambda one: one.id):
        contexts = sorted((one.type, hide(one.name)) for one in store.get_contexts_by_execution(execution.id))
        yield types[execution.type_id], execution.last_known_state, properties(execution, hide), contexts
        for event in store.get_events_by_execution_ids([execution.id]):
            (artifact,) = store.get_artifacts_by_id([event.artifact_id])
            about = properties(artifact, hide)
            if run_id in artifact.uri:
                assert about.pop(SIGNATURE)
            yield event.type, str(event.path), types[artifact.type_id], hide(artifact.uri), artifact.state, about


def properties(item: Any, hide: Callable[[str], str]) -> dict[str, str]:
    return {name: hide(str(value)) for name, value in [*item.properties.items(), *item.custom_properties.items()]}


@dataclass
class Story:
    """A run; one that compares the data with that of the blessed model; the same again, started as a shell starts it;
    and once more when the stored plan was removed, with every component in a process of TFX's.
    """

    folder: Path
    first: Finished
    compared: Finished
    quick: Finished
    after_quick: Left
    slow: Finished
    after_slow: Left


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = write(tmp_path_factory.mktemp("unchanged"))
    for name, text in ("speaking.py", SPEAKING), ("none_light.py", NONE_LIGHT):
        (folder / name).write_text(text, encoding="utf-8")
    speaking = {FIRST: str(folder / "speaking.py")}
    first, compared = (headrace(folder, "run", "trips.yaml", **speaking) for _ in range(2))
    quick = Going(folder, "run", "trips.yaml").finish()
    after_quick = left_by(quick)
    (folder / "runs" / "trips" / "plan.json").unlink()
    slow = headrace(folder, "run", "trips.yaml", **{FIRST: str(folder / "none_light.py")})
    return Story(folder, first, compared, quick, after_quick, slow, left_by(slow))


def test_an_unchanged_run_ends_without_tensorflow(story: Story) -> None:
    assert story.first.code == story.quick.code == story.slow.code == 0, story.quick.err
    assert [with_tensorflow(done) for done in (story.first, story.quick, story.slow)] == [True, False, True]
    statuses = {id_: "done" if id_ in EVERY_TIME else "cached" for id_ in story.first.statuses()}
    assert story.quick.statuses() == story.slow.statuses() == statuses
    assert len(EVERY_TIME) + 1 == len(LIGHT)  # ServingLog needs `gates.skew`


def test_what_needs_no_tensorflow_runs_in_the_command_until_another_process_has_it(story: Story) -> None:
    assert [with_tensorflow(done) for done in (story.first, story.compared)] == [True, True]
    assert not in_the_command(story.first)
    assert {"Spans", "SchemaGen"} <= in_the_command(story.compared) <= EVERY_TIME - {"RecordBlessing"}


def test_what_a_component_prints_in_the_command_is_in_its_log_alone(story: Story) -> None:
    log = (story.compared.folder / "logs" / "Spans.log").read_text(encoding="utf-8")
    assert "printed in the command" in log
    assert "warned in the command" in log
    assert "in the command" not in story.compared.out + story.compared.err


def in_the_command(done: Finished) -> set[str]:
    """The components that ran in the command."""
    logs = (done.folder / "logs").glob("*.log")
    return {log.stem for log in logs if "printed in the command" in log.read_text(encoding="utf-8")}


def test_the_data_is_judged_again_once_another_model_is_blessed(story: Story) -> None:
    assert with_tensorflow(story.compared)
    assert story.compared.ran() - EVERY_TIME == {"DataVerdict", "DataGate"}
    judged = [{one.gate: one.note for one in gates.gates} for gates in map(verdicts, (story.first, story.compared))]
    assert judged[0].keys() == judged[1].keys() == {"gates.rows", "gates.drift.blessed"}
    assert "on record" in judged[0]["gates.drift.blessed"]
    keys = [KeyParts.read(done.folder, "DataVerdict") for done in (story.first, story.compared)]
    assert all(key is not None and key.cacheable for key in keys)
    assert len({key.settings[STATE] for key in keys if key is not None}) == 2
    assert judged[1] == {"gates.rows": "", "gates.drift.blessed": ""}
    assert verdicts(story.quick) == verdicts(story.slow) == verdicts(story.compared)


def verdicts(done: Finished) -> DataVerdicts:
    gates = RunFolder.read(done.folder).gates
    assert gates is not None
    return gates


def test_it_leaves_what_a_run_with_tensorflow_leaves(story: Story) -> None:
    assert story.after_quick.lines == story.after_slow.lines
    for quick, slow in zip(story.after_quick.record["nodes"], story.after_slow.record["nodes"], strict=True):
        assert quick == slow
    assert story.after_quick.record == story.after_slow.record
    assert story.after_quick.files.keys() == story.after_slow.files.keys()
    for name, text in story.after_slow.files.items():
        assert story.after_quick.files[name] == text, name
    assert story.after_quick.metadata == story.after_slow.metadata
    assert len(story.after_quick.metadata) > 2 * len(story.quick.run.nodes)
    assert story.after_quick.state == story.after_slow.state


def test_a_program_that_goes_on_while_its_users_code_is_edited_sees_the_edit(story: Story) -> None:
    program = """
import json, sys
from pathlib import Path
import headrace

def run():
    made = headrace.run("trips.yaml", show=False)
    started = (made.path / "logs" / "start.log").exists()
    imported = sorted({"tensorflow", "pyarrow", "numpy", "grpc", "asyncio"} & {*sys.modules})
    return {node.id: str(node.status) for node in made.record.nodes}, started, imported, made.blessed, str(made.pushed)

found, file = [run()], Path("mine.py")
for old, new in ("* 2.0", "* 2.0  # twice"), ("2.0", "3.0"):
    file.write_text(file.read_text().replace(old, new))
    found.append(run())
print(json.dumps(found))
"""
    command = [str(HEADRACE.with_name("python")), "-P", "-c", in_program() + program]
    said = subprocess.check_output(command, cwd=story.folder, env=without_pythonpath(), text=True)
    (same, started, imported, *verdict), commented, (edited, edited_started, edited_imported, *_) = json.loads(said)
    assert (same, started, imported) == (story.quick.statuses(), False, [])
    assert commented == [same, started, imported, *verdict]
    assert verdict[0] is True
    assert f"pushed    {Path(verdict[1]).relative_to(story.folder)}" in story.quick.out
    assert edited_started
    assert "tensorflow" not in edited_imported  # Arrow is there: the data is checked again with the user's new code
    assert {id_ for id_ in edited if edited[id_] != same[id_]} == {
        "Transform", "Trainer", "Evaluator", "Canary", "Pusher", "BulkPredictor"
    }  # fmt: skip


@pytest.fixture
def quick_again(story: Story) -> Iterator[Path]:
    """The folder, in which the next run would be quick; and so it is afterwards, when TensorFlow had been back once.

    What runs before the first of these tests ends with a quick run or with a whole one, and each leaves it so.
    """
    yield story.folder
    done = headrace(story.folder, "run", "trips.yaml")
    if with_tensorflow(done):
        done = headrace(story.folder, "run", "trips.yaml")
    assert not with_tensorflow(done)
    assert not done.ran() - EVERY_TIME


def newest(folder: Path, output: str) -> Path:
    return max((folder / "runs" / "trips" / "artifacts" / output).iterdir())


def remove_evaluation(folder: Path) -> None:
    shutil.rmtree(newest(folder, "Evaluator/evaluation"))


def cut_examples(folder: Path) -> None:
    shard = next(newest(folder, "ExampleGen/examples").glob("Split-eval/*.gz"))
    os.truncate(shard, shard.stat().st_size - 1)


def zero_the_version_in_service(folder: Path) -> None:
    version = folder / "serving" / "trips" / max(versions(folder))
    file = version / "saved_model.pb"
    file.write_bytes(bytes(file.stat().st_size))


def remove_the_version_in_service(folder: Path) -> None:
    shutil.rmtree(folder / "serving" / "trips" / max(versions(folder)))


def change_a_digit_of_the_data(folder: Path) -> None:
    file = folder / "trips.csv"
    file.write_text(file.read_text(encoding="utf-8").replace("39.5,", "38.5,", 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "component"),
    [
        (remove_evaluation, "Evaluator"),
        (cut_examples, "ExampleGen"),
        (zero_the_version_in_service, "Pusher"),
        (remove_the_version_in_service, "Pusher"),
        (change_a_digit_of_the_data, "ExampleGen"),
    ],
)
def test_whatever_has_to_be_computed_again_brings_tensorflow_back(
    quick_again: Path, change: Callable[[Path], None], component: str
) -> None:
    change(quick_again)
    done = headrace(quick_again, "run", "trips.yaml")
    assert done.code == 0, done.err
    assert with_tensorflow(done)
    assert component in done.ran()
    assert done.run.node(component).seconds(0.0) < done.run.finished - done.run.started  # type: ignore[operator]


def test_it_stands_aside_for_a_failure_in_between(quick_again: Path) -> None:
    """What fails in the command fails again where it is reported, and leaves no trace of the attempt."""
    scored = quick_again / "scored.csv"
    intact = scored.read_bytes()
    scored.unlink()
    scored.mkdir()
    failed = headrace(quick_again, "run", "trips.yaml")
    scored.rmdir()
    scored.write_bytes(intact)
    assert failed.code == 1
    assert with_tensorflow(failed)
    assert "scored.csv" in failed.err + failed.out
    assert failed.statuses()["PublishPredictions"] == "failed"
    assert not [*quick_again.glob(f"runs/trips/artifacts/PublishPredictions/*/{failed.run.run_id}")]


def test_a_damaged_list_of_models_is_reported_by_whatever_reads_it_first(quick_again: Path) -> None:
    registry = quick_again / "runs" / "trips" / "blessed.json"
    intact = registry.read_text(encoding="utf-8")
    registry.write_text(intact.replace('"uri"', '"URI"', 1), encoding="utf-8")
    failed = headrace(quick_again, "run", "trips.yaml")
    registry.write_text(intact, encoding="utf-8")
    assert failed.code == 1
    assert "the list of blessed models is damaged" in failed.err + failed.out
    assert failed.statuses()["DataVerdict"] == "failed"


def test_a_run_in_progress_is_not_overtaken(quick_again: Path) -> None:
    home = quick_again / "runs" / "trips"
    before = sorted((home / "runs").iterdir())
    with hold(home / ".lock", lambda: "held"):
        refused = headrace(quick_again, "run", "trips.yaml")
    assert refused.code == 1
    assert "in progress" in refused.err
    assert sorted((home / "runs").iterdir()) == before


def test_data_that_no_longer_fits_is_refused_before_the_run_starts(quick_again: Path) -> None:
    file, home = quick_again / "trips.csv", quick_again / "runs" / "trips"
    intact, times = file.read_bytes(), file.stat()
    before = sorted((home / "runs").iterdir())
    file.write_bytes(intact.replace(b"fare", b"fair", 1))
    refused = headrace(quick_again, "run", "trips.yaml")
    file.write_bytes(intact)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert refused.code == 1
    assert '"fare" is not a column' in refused.err
    assert sorted((home / "runs").iterdir()) == before


def test_the_card_of_the_model_in_service_is_written_again_only_if_it_is_missing_or_old(quick_again: Path) -> None:
    home = quick_again / "runs" / "trips"
    card = max(home.glob("runs/*/model_card.html"))
    text, written = card.read_text(encoding="utf-8"), card.stat().st_mtime_ns
    assert not with_tensorflow(headrace(quick_again, "run", "trips.yaml"))
    assert card.stat().st_mtime_ns == written
    card.unlink()
    assert not with_tensorflow(headrace(quick_again, "run", "trips.yaml"))
    assert TIMES.sub("", card.read_text(encoding="utf-8")) == TIMES.sub("", text)
    card.write_text("of before", encoding="utf-8")
    os.utime(card, ns=(written, (home / "pushed.json").stat().st_mtime_ns - 1))
    headrace(quick_again, "run", "trips.yaml")
    assert card.read_text(encoding="utf-8") != "of before"


@pytest.mark.parametrize("option", [("--profile", "more"), ("--set", "train.epochs=3"), ("--fresh",)])
def test_another_config_or_a_fresh_run_starts_the_server_at_once(story: Story, option: tuple[str, ...]) -> None:
    going = started_at_once(story.folder, "run", "trips.yaml", *option)
    going.wait_for("ExampleGen")
    going.signal(signal.SIGINT)
    done = going.finish()
    assert with_tensorflow(done)
    assert done.statuses()["Trainer"] != "cached"


def test_an_explanation_of_the_next_run_publishes_nothing(quick_again: Path) -> None:
    (quick_again / "scored.csv").write_text("mine\n")
    said = headrace(quick_again, "explain-cache", "trips.yaml", "--next")
    assert (said.code, (quick_again / "scored.csv").read_text()) == (0, "mine\n"), said.err
    assert "PublishPredictions" in said.out
