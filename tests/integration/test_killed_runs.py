"""Nights whose runs are killed in every component leave what undisturbed nights leave.

HEADRACE_TEST_KILLS_EACH=10 makes a campaign of it, in which every component dies ten times; HEADRACE_TEST_SEED draws
other moments (docs/testing.md).
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Finished
from drawn_kills import Kills, Night, table
from killed_nights import ONLY_PREDICTS, ROWS, Moment, Nights, weights

from headrace.common.durable import PARTIAL_SUFFIX
from headrace.components.lite.verdict import MODEL_FILE, REPORT_FILE
from headrace.configs.schema.components import DECLARATIONS
from headrace.pipeline.results.record import RunRecord, Status

pytestmark = pytest.mark.slow

EACH = int(os.environ.get("HEADRACE_TEST_KILLS_EACH", "1"))
"""How many times each component dies, and each command before its first component."""
NIGHTS = EACH + 3
"""After so many, a component that died too rarely is one that the moments miss."""
SEED = int(os.environ.get("HEADRACE_TEST_SEED", "1"))
ALWAYS = {"WarmStart", "Drift", "RecordTraining", "ServingLog", "ModelInService", "PredictSpans", "PublishPredictions"}
"""Components that are computed in each run, besides those that `Finished.ran` leaves out."""
AFTER_BLESSING = {"DataVerdict", "DataGate"}
"""Those that compare with the data of the model blessed last. The night's own run may have ended with its blessing."""
UNBLESSED = ("--set", "evaluate.thresholds.auc.min=1")
"""What no model of this data reaches."""


def test_nights_with_kills_in_every_component_leave_what_undisturbed_nights_do(
    new_folder: Callable[[str], Path],
) -> None:
    calm, killed = (Nights(new_folder(name), tuned=EACH > 1) for name in ("calm", "killed"))
    draw = random.Random(SEED)
    trains, predicts = Kills("nightly", EACH, draw), Kills("predict.only", EACH, draw)
    for night in range(NIGHTS):
        options = UNBLESSED if night % 3 == 2 else ()
        calm.next_day()
        killed.next_day()
        undisturbed = calm.run(*options)
        assert undisturbed.code == 0, undisturbed.out + undisturbed.err
        _die(killed, trains.night(undisturbed.run, calm.changes), *options)
        _goes_on(killed, *options)
        _is_like(killed, calm, undisturbed, *options)
        _predict_only(predicts, calm, killed)
        print(f"after night {night + 1}:\n{table(trains, predicts)}", flush=True)
        if not (trains.missed or predicts.missed):
            break
    _is_pushed_by_another_night(killed)
    assert (trains.missed, predicts.missed) == ({}, {})
    assert min(*trains.counts.values(), *predicts.counts.values()) >= EACH
    died = {component.lower() for kills in (trains, predicts) for component in kills.counts}
    assert {name.replace("_", "") for name in DECLARATIONS} - died == (set() if EACH > 1 else {"tuner"})


def _predict_only(kills: Kills, calm: Nights, killed: Nights) -> None:
    """The pipeline that only predicts, killed in each of its components."""
    undisturbed = calm.run(*ONLY_PREDICTS)
    assert undisturbed.code == 0, undisturbed.out + undisturbed.err
    _die(killed, kills.night(undisturbed.run, calm.changes), *ONLY_PREDICTS)
    done = killed.run(*ONLY_PREDICTS)
    assert done.code == 0, done.out + done.err
    ours, theirs = killed.outputs(done.run), calm.outputs(undisturbed.run)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []
    assert killed.predicted == calm.predicted
    assert (killed.leftovers(), killed.unknown()) == ([], set())


def _die(killed: Nights, night: Night, *options: str) -> None:
    """Runs that die, until no moment of the night is left to come. After each, the model in service is a blessed one,
    and the night counts as trained on only if that is the newest one.
    """
    while due := night.due:
        done = killed.run(*options, kills=due)
        served, blessed = killed.served, killed.blessed
        assert not served or served[-1] in blessed
        assert not killed.trained_on_newest_day or served[-1:] == blessed[-1:]
        predictions = killed.predictions
        for content in (content for name, content in killed.predicted.items() if not name.endswith(PARTIAL_SUFFIX)):
            assert (content in predictions, content.count(b"\n")) == (True, 1 + ROWS)
        _has_died(done, [moment for moment in due if moment.component in killed.died])
        night.count(killed.died, done.record)


def _has_died(done: Finished, moments: list[Moment]) -> None:
    """The command was killed; or it failed, as only processes of components were; or it has ended before any moment."""
    if done.code == -signal.SIGKILL:
        assert moments
        return
    assert done.code == (1 if moments else 0), done.out + done.err
    for moment in moments:
        assert moment.alone, done.out + done.err
        assert done.run.node(moment.component).status is Status.FAILED
        assert "SIGKILL" in (done.run.node(moment.component).error or "")


def _goes_on(killed: Nights, *options: str) -> None:
    """The next run ends the night, if the last one was not killed after the night's work was done; nothing is left for
    another.
    """
    for words in ("", "nothing new: the last model was trained on the same data"):
        done = killed.run(*options)
        assert done.code == 0, done.out + done.err
        assert "damaged" not in done.out
        assert (done.run.ended or "").startswith(words)
    assert killed.leftovers() == []
    assert killed.unknown() == set()
    states = {RunRecord.read(path.parent).status for path in killed.home.glob("runs/*/run.json")}
    assert states <= {Status.DONE, Status.INTERRUPTED, Status.FAILED}
    assert killed.served[-1] == killed.blessed[-1]
    assert killed.pushes == killed.blessings  # one version for each
    assert set(killed.converted) == set(killed.versions)
    assert {frozenset(files) for files in killed.converted.values()} == {frozenset({MODEL_FILE, REPORT_FILE})}


def _is_like(killed: Nights, calm: Nights, undisturbed: Finished, *options: str) -> None:
    """The outputs of the night, the blessed models and those in service are those of the undisturbed one."""
    whole = killed.run("--param", "retrain=always", *options)
    assert whole.ran() - ALWAYS - AFTER_BLESSING == set()
    ours, theirs = killed.outputs(whole.run), calm.outputs(undisturbed.run)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []
    assert [weights(model) for model in killed.blessed] == [weights(model) for model in calm.blessed]
    assert [weights(model) for model in killed.served] == [weights(model) for model in calm.served]
    assert killed.predicted == calm.predicted


def _is_pushed_by_another_night(killed: Nights) -> None:
    """A blessed model whose own run was killed before the push gets into service though the next one is not blessed."""
    before = killed.served[-1]
    unpushed = ("--set", "train.epochs=2")
    assert killed.run(*unpushed, kills=[Moment("component", "Pusher", 0)]).code == -signal.SIGKILL
    assert killed.served[-1] == before != killed.blessed[-1]
    other = killed.run(*UNBLESSED, "--set", "train.epochs=1")
    assert other.ending("blessing").startswith("not blessed")
    assert killed.served[-1] == killed.blessed[-1] != before
    assert killed.pushes == killed.blessings
