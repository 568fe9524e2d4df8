"""`import headrace` in a program of a user's own, in a folder that is not the clone."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import Finished, headrace
from forks import HEADRACE, in_program
from installed import without_pythonpath
from parcels import write_parcels

import headrace as face

CONFIG: dict[str, Any] = {
    "pipeline": {"name": "parcels"},
    "data": {"source": {"kind": "csv", "path": "parcels.csv"}},
    "label": {"key": "late", "kind": "binary"},
    "features": {
        "distance": {"column": "numeric"},
        "hours": {"column": "numeric"},
        "carrier": {"column": "vocabulary"},
    },
    "model": {"kind": "dnn", "hidden": [8]},
    "train": {"epochs": 1, "steps_per_epoch": 50, "batch_size": 64},
    "evaluate": {"metrics": ["auc", "binary_accuracy"], "slices": ["carrier"], "thresholds": {"auc": {"min": 0.6}}},
    "deploy": {"canary": None},
}
LIGHT = """
import json, sys
import headrace
before = sorted(sys.modules)
headrace.load, headrace.Run, headrace.ConfigError
lacking = [name for name in headrace.__all__ if not hasattr(headrace, name)]
print(json.dumps([before, sorted(sys.modules), headrace.__all__, lacking]))
"""
PROGRAM = """
import json, os, shutil, signal, sys, threading, time
from pathlib import Path
import headrace

SPLITS = ("train", "eval", "test")

config = json.loads(Path("config.json").read_text())
def mark():
    for stream in sys.stdout, sys.stderr:
        print("MARK", file=stream, flush=True)
mark()
run = headrace.run(config, overrides={"train.epochs": 2, "model.hidden": [16]}, show=False)
mark()
assert "tensorflow" not in sys.modules
exec(sys.argv[1])  # what it starts from here on is forked
found = {
    "metrics": dict(run.metrics), "blessed": run.blessed, "reasons": run.reasons, "pushed": str(run.pushed),
    "frame": json.loads(run.metrics_frame.to_json(orient="index", double_precision=15)),
    "report": str(run.report), "repr": repr(run),
    "epochs": run.config.train.epochs, "path": str(run.path), "status": run.status, "early": run.ended_early,
    "html": run._repr_html_(), "schema": sorted(feature.name for feature in run.schema.feature),
    "artifact": [run.artifact("SchemaGen").type, run.artifact("SchemaGen").uri],
    "counted": {split: run.statistics(split).datasets[0].num_examples for split in SPLITS},
}
tables = {split: run.examples(split) for split in SPLITS}
found["types"] = {field.name: str(field.type) for field in tables["train"].schema}
found["rows"] = {split: table.to_pandas().map(lambda each: each.decode() if isinstance(each, bytes) else each)
                 .to_dict("records") for split, table in tables.items()}
found["transformed"] = {name: run.examples("test", transformed=True).column(name).to_pylist()
                        for name in ("distance", "carrier")}
found["vocabulary"] = [word.decode() for word in run.transform.vocabulary_by_name("carrier")]

import tensorflow as tf
raw = {name: tf.constant(tables["test"].column(name).to_pylist()) for name in ("distance", "hours", "carrier")}
found["predictions"] = run.model().signatures["serving_raw"](**raw)["predictions"].numpy()[:, 0].tolist()

again = []
settings = ["train.epochs=2", "model.hidden=[16]"]
thread = threading.Thread(target=lambda: again.append(headrace.run(config, overrides=settings)))
thread.start(); thread.join()
found["again"] = {node.id: node.status for node in again[0].record.nodes}
found["runs"] = [each.id for each in headrace.runs(config)]
found["ids"] = [again[0].id, run.id]

headrace.compile(config, "compiled.yaml", overrides={"kubeflow.image": "registry.example/headrace:1"})
changed = {"train.epochs": 2, "model.hidden": [16]}
compiled = [headrace.compile(of, overrides={"kubeflow.image": "registry.example/headrace:1", **overrides})
            for of, overrides in ((config, changed), (run.config, {}))]
found["compiled"] = compiled[0] == compiled[1] and "cpuLimit" in compiled[0]
threads = [threading.Thread(target=headrace.compile, args=(found_config,)) for found_config in
           2 * [{**config, "kubeflow": {"image": "registry.example/headrace:1"}}]]
before = os.readlink("/proc/self/fd/2")
[thread.start() for thread in threads]; [thread.join() for thread in threads]
found["stderr"] = [before, os.readlink("/proc/self/fd/2")]
def started(name):
    return any(node.id == name and node.started for each in headrace.runs(other) for node in each.record.nodes)
def stop():
    while not started("ExampleGen"):
        time.sleep(0.05)
    _ = [each.report for each in headrace.runs(other)]
    os.kill(os.getpid(), signal.SIGINT)
other = {**config, "pipeline": {"name": "other"}}
handler = signal.getsignal(signal.SIGINT)
stopping = threading.Thread(target=stop); stopping.start()
try:
    headrace.run(other, show=False)
except KeyboardInterrupt:
    found["stopped"] = [signal.getsignal(signal.SIGINT) is handler, headrace.runs(other)[0].status]
stopping.join()
found["pages"] = (headrace.runs(other)[0].path / "report.html").read_text()
home = run.path.parents[1]
Path("moved/artifacts").mkdir(parents=True)
home.rename("moved/artifacts/parcels")
moved = headrace.Run.read("moved/artifacts/parcels/runs/" + run.id)
found["moved"] = dict(moved.metrics)
shutil.copytree("moved/artifacts/parcels", "damaged/parcels")
damaged = headrace.Run.read("damaged/parcels/runs/" + run.id)
assert "damaged" in damaged.artifact("Evaluator", "evaluation").uri
for file in Path(damaged.artifact("ExampleGen", "examples").uri, "Split-train").iterdir():
    file.unlink()
Path(damaged.artifact("Evaluator", "evaluation").uri, "evaluation.json").write_text("{")
broken = headrace.Run.read(damaged.path)
def refusal(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except Exception as error:
        return [type(error).__name__, str(error)]
refused = {"examples gone": refusal(broken.examples, "train"), "evaluation damaged": refusal(lambda: broken.blessed)}
Path("moved/artifacts/parcels").rename(home)
found["refused"] = refused | {
    "nothing to share": refusal(headrace.share, [], "shared"),
    "no folder": refusal(headrace.compile, {**config, "kubeflow": {"image": "r/x:1"}}, "nofolder/x.yaml"),
    "no component": refusal(run.artifact, "Trainr"),
    "which output": refusal(run.artifact, "Trainer"),
    "no split": refusal(run.examples, "tests"),
    "no column": refusal(headrace.validate, {**config, "label": {"key": "lat", "kind": "binary"}}),
    "both": refusal(headrace.run, {**config, "trian": {}, "label": {"key": "lat", "kind": "binary"}}),
    "profile": refusal(headrace.load, config, profile="kubeflow"),
    "text": refusal(headrace.load, config, overrides="train.epochs=1"),
    "fails": refusal(headrace.run, config, overrides={"features.hours": {"column": "custom", "keys": ["hours"],
                     "function": "own.broken"}}, show=False),
}
Path("found.json").write_text(json.dumps(found))
"""


@dataclass(frozen=True)
class Program:
    """What the program found, and what it printed."""

    folder: Path
    found: dict[str, Any]
    out: str
    err: str


@pytest.fixture(scope="module")
def program(new_folder: Callable[[str], Path]) -> Program:
    folder = new_folder("program")
    write_parcels(folder / "parcels.csv", 800)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "own.py").write_text("def broken(hours):\n    raise ValueError('hours are not for me')\n")
    (folder / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py", in_program()],
        cwd=folder, env=without_pythonpath(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return Program(folder, json.loads((folder / "found.json").read_text()), done.stdout, done.stderr)


def test_importing_is_light_and_every_public_name_is_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT],
        cwd=tmp_path, env=without_pythonpath(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, after, public, lacking = json.loads(done.stdout)
    assert not {"pydantic", "yaml", "pandas", "headrace.pipeline"} & {*before}
    assert not {"tensorflow", "apache_beam", "tfx", "kfp", "pandas"} & {*after}
    assert lacking == []
    assert public == sorted(public)
    assert {"Run", "compile", "load", "run", "runs", "validate"} <= {*public}
    with pytest.raises(AttributeError, match="no attribute 'sumbit'"):
        _ = face.sumbit


@pytest.mark.slow
def test_run_has_the_verdict_the_metrics_and_the_report(program: Program) -> None:
    found = program.found
    (evaluation,) = program.folder.glob("runs/parcels/artifacts/Evaluator/evaluation/*/evaluation.json")
    expected = json.loads(evaluation.read_text())
    assert found["metrics"] == expected["metrics"]
    assert found["blessed"] is expected["blessed"] is True
    assert any("auc" in reason for reason in found["reasons"])
    assert found["frame"]["all"] == pytest.approx({"examples": expected["example_count"], **expected["metrics"]})
    by_carrier = {row["carrier"] for row in found["rows"]["test"]}
    assert {*found["frame"]} == {"all", *(f"carrier = {carrier}" for carrier in by_carrier)}
    assert found["pushed"].startswith(str(program.folder / "serving" / "parcels"))
    assert Path(found["pushed"], "saved_model.pb").is_file()
    assert found["report"] == f"{found['path']}/report.html"
    assert (found["epochs"], found["status"], found["early"]) == (2, "done", None)
    assert "of parcels: done, blessed" in found["repr"]


@pytest.mark.slow
def test_examples_and_statistics_are_those_of_the_file(program: Program) -> None:
    with (program.folder / "parcels.csv").open() as file:
        written = sorted((row["carrier"], int(row["late"]), float(row["hours"])) for row in csv.DictReader(file))
    rows = [row for split in ("train", "eval", "test") for row in program.found["rows"][split]]
    read = sorted((row["carrier"], row["late"], row["hours"]) for row in rows)
    assert [each[:2] for each in read] == [each[:2] for each in written]
    assert [each[2] for each in read] == pytest.approx([each[2] for each in written], rel=1e-6)
    assert program.found["types"] == {"carrier": "large_binary", "distance": "float", "hours": "float", "late": "int64"}
    assert program.found["counted"] == {split: len(found) for split, found in program.found["rows"].items()}
    assert program.found["schema"] == ["carrier", "distance", "hours", "late"]
    kind, uri = program.found["artifact"]
    assert kind == "Schema"
    assert Path(uri, "schema.pbtxt").is_file()


@pytest.mark.slow
def test_transform_and_model_fit_the_examples(program: Program) -> None:
    found = program.found
    rows = found["rows"]["test"]
    assert {*found["vocabulary"]} == {row["carrier"] for row in found["rows"]["train"]}
    train = [row["distance"] for row in found["rows"]["train"]]
    mean = sum(train) / len(train)
    deviation = (sum((value - mean) ** 2 for value in train) / len(train)) ** 0.5
    z_scores = sorted((row["distance"] - mean) / deviation for row in rows)
    assert sorted(found["transformed"]["distance"]) == pytest.approx(z_scores, abs=1e-4)
    right = [(prediction >= 0.5) == row["late"] for prediction, row in zip(found["predictions"], rows, strict=True)]
    assert sum(right) / len(right) == pytest.approx(found["metrics"]["binary_accuracy"], abs=1e-6)


@pytest.mark.slow
def test_silent_run_prints_nothing(program: Program) -> None:
    for stream in (program.out, program.err):
        _, during_run, _ = stream.split("MARK\n")
        assert during_run == ""


@pytest.mark.slow
def test_warnings_are_shown_only_if_the_program_configures_logging(program: Program) -> None:
    def share(configure: str) -> tuple[int, str, str]:
        code = f"import headrace, logging; {configure}; headrace.share(['runs/parcels', 'runs/other'], 'shared page')"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=program.folder, env=without_pythonpath(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    assert share("pass") == (0, "", "")
    code, out, err = share("logging.basicConfig()")
    assert (code, out) == (0, "")
    assert err.startswith("WARNING:headrace.")
    assert "runs/other" in err


@pytest.mark.slow
def test_second_run_in_a_thread_reuses_everything_and_both_are_listed(program: Program) -> None:
    always = {"Spans", "Baseline", "RecordBlessing", "Pusher"}
    assert {status for id_, status in program.found["again"].items() if id_ not in always} == {"cached"}
    newest = program.found["runs"]
    assert [each for each in newest if each in program.found["ids"]] == program.found["ids"]


@pytest.mark.slow
def test_run_that_is_stopped_leaves_the_program_and_its_report_in_order(program: Program) -> None:
    assert program.found["stopped"] == [True, "interrupted"]
    assert "Running" not in program.found["pages"].partition("</title>")[0]


@pytest.mark.slow
def test_two_threads_that_compile_leave_standard_error_where_it_was(program: Program) -> None:
    before, after = program.found["stderr"]
    assert before == after


@pytest.mark.slow
def test_pipelines_folder_may_be_moved_below_any_other(program: Program) -> None:
    assert program.found["moved"] == program.found["metrics"]


@pytest.mark.slow
def test_report_is_shown_in_a_frame_that_cannot_reach_the_notebook(program: Program) -> None:
    from html.parser import HTMLParser

    frames: list[dict[str, str | None]] = []

    class Frames(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag == "iframe"
            frames.append(dict(attrs))

    Frames().feed(program.found["html"])
    ((frame),) = frames
    assert frame["srcdoc"] == Path(program.found["report"]).read_text(encoding="utf-8")
    assert frame["sandbox"] == "allow-scripts"


@pytest.mark.slow
def test_what_is_compiled_is_what_the_command_compiles(program: Program) -> None:
    (program.folder / "parcels.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False))
    done = subprocess.run(
        [HEADRACE, "compile", "parcels.yaml", "--set", "kubeflow.image=registry.example/headrace:1"],
        cwd=program.folder, env=without_pythonpath(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (program.folder / "compiled.yaml").read_text() == done.stdout


@pytest.mark.slow
def test_config_of_a_run_compiles_to_what_its_own_config_does(program: Program) -> None:
    assert program.found["compiled"]


@pytest.mark.slow
def test_command_continues_where_the_program_ended_and_tells_of_the_blessing(program: Program) -> None:
    (program.folder / "parcels.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False))
    receiver = "notify.log={kind: command, command: [tee, event.json], on: [blessed]}"
    settings = ["train.epochs=2", "model.hidden=[16]", receiver]
    overrides = [word for setting in settings for word in ("--set", setting)]
    done: Finished = headrace(program.folder, "run", "parcels.yaml", *overrides)
    assert done.code == 0, done.out + done.err
    assert done.ran() <= {"Pusher"}
    event = json.loads((program.folder / "event.json").read_text())
    assert (event["type"], event["subject"]) == ("headrace.run.blessed", done.run.run_id)
    assert event["data"]["metrics"] == program.found["metrics"]
    assert {limit["metric"]: limit["passed"] for limit in event["data"]["limits"]}["auc"] is True
    assert sum(event["data"]["examples"].values()) == 800


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("examples gone", "RunError", ["train", "0 are left"]),
        ("evaluation damaged", "RunError", ["evaluation.json"]),
        ("nothing to share", "RunError", ["to share"]),
        ("no folder", "RunError", ["nofolder/x.yaml", "no folder nofolder"]),
        ("no component", "RunError", ["Trainr", "it has: Spans"]),
        ("which output", "RunError", ["Trainer", "model, model_run"]),
        ("no split", "RunError", ["no split tests", "eval, test, train"]),
        ("no column", "ConfigError", ["config: label.key", '"lat"', "late"]),
        ("both", "ConfigError", ["config: trian", "config: label.key"]),
        ("profile", "ConfigError", ["profile 'kubeflow'", "overrides"]),
        ("text", "TypeError", ['["train.epochs=3"]']),
        ("fails", "RunError", ["Transform failed", "hours are not for me"]),
    ],
)
def test_mistake_has_its_class_its_place_and_a_way_out(
    program: Program, what: str, kind: str, words: list[str]
) -> None:
    found = program.found["refused"][what]
    assert found is not None
    assert found[0] == kind
    assert all(word in found[1] for word in words), found[1]
    assert "Traceback" not in program.out
