"""Nights whose runs are killed in every component leave what undisturbed nights leave.

HEADRACE_TEST_KILLS=200 makes a long campaign of it; HEADRACE_TEST_SEED draws other moments (docs/testing.md).
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Finished
from killed_nights import ONLY_PREDICTS, ROWS, Moment, Nights, weights

from headrace.common.durable import PARTIAL_SUFFIX
from headrace.components.lite.verdict import MODEL_FILE, REPORT_FILE
from headrace.pipeline.results.record import RunRecord, Status

pytestmark = pytest.mark.slow

CAMPAIGN = "HEADRACE_TEST_KILLS" in os.environ
KILLS = int(os.environ.get("HEADRACE_TEST_KILLS", "26"))
"""By default one for the start and one for each component, in a single night."""
SEED = int(os.environ.get("HEADRACE_TEST_SEED", "1"))
START = "start"
"""What a command does before its first component."""
ALWAYS = {"WarmStart", "Drift", "RecordTraining", "ServingLog", "PredictSpans", "PublishPredictions"}
"""Components that are computed in each run, besides those that `Finished.ran` leaves out."""
AFTER_BLESSING = {"DataVerdict", "DataGate"}
"""Those that compare with the data of the model blessed last. The night's own run may have ended with its blessing."""
UNBLESSED = ("--set", "evaluate.thresholds.auc.min=1")
"""What no model of this data reaches."""


def test_nights_with_kills_in_every_component_leave_what_undisturbed_nights_do(
    new_folder: Callable[[str], Path],
) -> None:
    calm, killed = (Nights(new_folder(name), tuned=CAMPAIGN) for name in ("calm", "killed"))
    draw, counts, done = random.Random(SEED), Counter[str](), 0
    while done < KILLS:
        options = UNBLESSED if calm.days % 3 == 0 else ()
        calm.next_day()
        killed.next_day()
        undisturbed = calm.run(None, *options)
        assert undisturbed.code == 0, undisturbed.out + undisturbed.err
        first = not done
        for moment in _moments(draw, calm, undisturbed, KILLS - done, first=first):
            died = _dies(killed, moment, *options)
            assert died or not first
            counts[moment.component if died else "too late"] += 1
            done += 1
            print(f"{done}. {moment}{'' if died else ': too late'}", flush=True)
        _goes_on(killed, *options)
        _is_like(killed, calm, undisturbed, *options)
        done += _predict_only(draw, calm, killed, counts)
    _is_pushed_by_another_night(killed)
    print(f"{done} kills in {calm.days - 1} nights: {dict(counts)}")


def _moments(draw: random.Random, calm: Nights, night: Finished, most: int, *, first: bool) -> list[Moment]:
    """When to kill a night: in the first one within each component; later at moments of all kinds.

    They come in the order in which the components end, so that a night comes as far as each of them.
    """
    changes = [line.split(maxsplit=3) for line in calm.changes]
    components = [START, *(node.id for node in sorted(night.run.nodes, key=lambda node: node.finished or 0))]
    chosen = draw.sample(range(len(components)), min(most, len(components)))
    return [_moment(draw, changes, night, components[number], first=first) for number in sorted(chosen)]


def _moment(draw: random.Random, changes: list[list[str]], night: Finished, component: str, *, first: bool) -> Moment:
    process = "component" if component != START and (first or draw.random() < 0.7) else "command"
    if [process, component] not in [change[:2] for change in changes]:  # its output is used again
        process = "command"
    if not first and component != START and draw.random() < 0.4:  # within code that is not Python too
        seconds = night.run.node(component).seconds(0) or 0
        return Moment("command", component, 0, after=draw.uniform(0, seconds))
    count = sum(change[:2] == [process, component] for change in changes)
    alone = not first and process == "component" and draw.random() < 0.3
    return Moment(process, component, draw.randrange(count), alone=alone)


def _predict_only(draw: random.Random, calm: Nights, killed: Nights, counts: Counter[str]) -> int:
    """The pipeline that only predicts, killed in each of its components; how many kills there were."""
    undisturbed = calm.run(None, *ONLY_PREDICTS)
    assert undisturbed.code == 0, undisturbed.out + undisturbed.err
    moments = _moments(draw, calm, undisturbed, KILLS, first=False)
    for moment in moments:
        died = _dies(killed, moment, *ONLY_PREDICTS)
        counts[f"{moment.component} of predict.only" if died else "too late"] += 1
        print(f"predict.only: {moment}{'' if died else ': too late'}", flush=True)
    done = killed.run(None, *ONLY_PREDICTS)
    assert done.code == 0, done.out + done.err
    ours, theirs = killed.outputs(done.run), calm.outputs(undisturbed.run)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []
    assert killed.predicted == calm.predicted
    assert (killed.leftovers(), killed.unknown()) == ([], set())
    return len(moments)


def _dies(killed: Nights, moment: Moment, *options: str) -> bool:
    """Whether a run is killed at that moment, and did not end before. Whichever it is, the model in service is a
    blessed one, and the night counts as trained on only if that is the newest one.
    """
    done = killed.run(moment, *options)
    served, blessed = killed.served, killed.blessed
    assert not served or served[-1] in blessed
    assert not killed.trained_on_newest_day or served[-1:] == blessed[-1:]
    predictions = killed.predictions
    for content in (content for name, content in killed.predicted.items() if not name.endswith(PARTIAL_SUFFIX)):
        assert (content in predictions, content.count(b"\n")) == (True, 1 + ROWS)
    if moment.alone and done.code == 1:
        assert done.run.node(moment.component).status is Status.FAILED
        assert "SIGKILL" in (done.run.node(moment.component).error or "")
    else:
        assert done.code in (-signal.SIGKILL, 0), done.out + done.err
    return done.code != 0


def _goes_on(killed: Nights, *options: str) -> None:
    """The next run ends the night, if the last one was not killed after the night's work was done; nothing is left for
    another.
    """
    for words in ("", "nothing new: the last model was trained on the same data"):
        done = killed.run(None, *options)
        assert done.code == 0, done.out + done.err
        assert "damaged" not in done.out
        assert (done.run.ended or "").startswith(words)
    assert killed.leftovers() == []
    assert killed.unknown() == set()
    states = {RunRecord.read(path.parent).status for path in killed.home.glob("runs/*/run.json")}
    assert states <= {Status.DONE, Status.INTERRUPTED, Status.FAILED}
    assert killed.served[-1] == killed.blessed[-1]
    assert set(killed.converted) == set(killed.versions)
    assert {frozenset(files) for files in killed.converted.values()} == {frozenset({MODEL_FILE, REPORT_FILE})}


def _is_like(killed: Nights, calm: Nights, undisturbed: Finished, *options: str) -> None:
    """The outputs of the night, the blessed models and those in service are those of the undisturbed one."""
    whole = killed.run(None, "--param", "retrain=always", *options)
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
    assert killed.run(Moment("component", "Pusher", 0), *unpushed).code == -signal.SIGKILL
    assert killed.served[-1] == before != killed.blessed[-1]
    other = killed.run(None, *UNBLESSED, "--set", "train.epochs=1")
    assert other.ending("blessing").startswith("not blessed")
    assert killed.served[-1] == killed.blessed[-1] != before
