"""The examination of an exported model by its canary.

verdict = examine(serving_dir, examples, Limits(latency_p99_ms=20.0))
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from headrace.common.errors import RunError
from headrace.common.names import join_names
from headrace.components.canary.agreement import compare, why_not_drawn
from headrace.components.canary.as_trained import SIGNATURE, Trained, compare_with_trainer, why_not_compared
from headrace.components.canary.caller import PATIENCE, Answer, Caller, first_line
from headrace.components.canary.generation import generation_inputs, is_generation
from headrace.components.canary.inputs import odd_inputs, rows_of_many, texts
from headrace.components.canary.latency import LatencyLimits, measure_latency
from headrace.components.canary.replay import Ask, Pairs, replay
from headrace.components.canary.server import SignatureProbe, examine_on_server
from headrace.components.canary.signatures import (
    Inputs,
    RealInputs,
    Signature,
    UnmadeError,
    computes_in_half,
    make_inputs,
    read_signatures,
    read_warmup,
)
from headrace.components.canary.verdict import (
    AnswersVerdict,
    CanaryVerdict,
    DifferentAnswer,
    OddAnswer,
    ReplayVerdict,
    ServerVerdict,
    SignatureVerdict,
)
from headrace.configs.schema.serving import CanaryServer
from headrace.trainer.description import ModelDescription
from headrace.trainer.generation import GENERATE
from headrace.trainer.served_model import SCORE

TOLERANCE = 1e-4
"""Of float32 answers, relative to the largest number of an output: the two runtimes fuse other operations and so round
otherwise, which a model of many layers amplifies. Whole numbers and texts must be equal."""
HALF_TOLERANCE = 0.02
"""The same for a model that computes in 16 bits, of which bfloat16 keeps two decimal digits."""
NOT_SERVED = "only the Evaluator asks it; its numbers are probabilities, ranks and classes, of different sizes"
"""Why the signature `score` is not asked: no tolerance is right for all its numbers, and nothing serves it."""
MEGABYTE = 1_000_000


class Limits(NamedTuple):
    """What the process of the model may take, in milliseconds and in megabytes (10^6 bytes); None: anything."""

    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    memory_mb: float | None = None

    @property
    def latency(self) -> LatencyLimits:
        return LatencyLimits(self.latency_p50_ms, self.latency_p99_ms)


UNLIMITED = Limits()


class Staging(NamedTuple):
    """The staging server that the model is tried on, and the pipeline's name."""

    server: CanaryServer
    pipeline: str


class Replaying(NamedTuple):
    """What is replayed, by which signature, and whether a feature that differs refuses the model."""

    pairs: Pairs
    signature: str = "transform_features"
    refuses: bool = True


def examine(
    model: Path,
    examples: Sequence[bytes],
    limits: Limits = UNLIMITED,
    patience: float = PATIENCE,
    *,
    trained: Trained | None = None,
    replaying: Replaying | None = None,
    staging: Staging | None = None,
) -> CanaryVerdict:
    """The verdict on a SavedModel, for serialized tf.Examples. patience: seconds for one answer.

    Raises RunError if the staging server cannot be asked, and that is not to be passed over.
    """
    with Caller(model, patience) as caller, _plain_python():
        caller.start()
        return _Examination(model, caller, texts(examples), limits).verdict(trained, replaying, staging)


@contextlib.contextmanager
def _plain_python() -> Iterator[None]:
    """Let TensorFlow's Python run graphs as they are: C++ alone rewrites them, so that a wrong rewrite is found too."""
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


class _Examination:
    """One model in one process after another."""

    def __init__(self, model: Path, caller: Caller, examples: NDArray[Any], limits: Limits) -> None:
        self._model, self._caller, self._examples, self._limits = model, caller, examples, limits
        self._signatures = read_signatures(model)
        self._description = _description(model)
        self._writes_texts = self._description is not None and self._description.label.kind == "text"
        self._tolerance = HALF_TOLERANCE if computes_in_half(model) else TOLERANCE
        self._reasons: list[str] = []
        self._peak = 0
        self._probes: list[SignatureProbe] = []

    def verdict(self, trained: Trained | None, replaying: Replaying | None, staging: Staging | None) -> CanaryVerdict:
        limits: dict[str, Any] = self._limits._asdict()
        python, why_not = _load(self._model)
        if python is None:
            self._refuse(why_not)
        loaded = self._caller.load()
        if loaded.outcome != "answered":
            self._refuse(f"TensorFlow's C++ loader cannot load it: {loaded.detail}")
            return CanaryVerdict(reasons=tuple(self._reasons), **limits)
        self._peak = loaded.peak
        warmed = self._warm_up()
        made = {name: self._make(one, python, why_not) for name, one in self._signatures.items()}
        answered = [self._ask(self._signatures[name], real, python) for name, real in made.items()]
        memory, memory_mb = self._peak, self._limits.memory_mb
        if memory_mb is not None and memory > memory_mb * MEGABYTE:
            self._refuse(
                f"its process takes {memory / MEGABYTE:,.0f} MB of memory; deploy.canary.memory_mb allows"
                f" {memory_mb:,.0f} MB"
            )
        replayed = None if replaying is None else self._replay(replaying)
        judged_by_replay = replaying is None or not replaying.refuses or bool(replayed and replayed.differing)
        compared = None if trained is None else self._as_trained(trained, python, judged_by_replay)
        judged = [self._with_odd(one, made[one.name]) for one in answered]
        served = None if staging is None else self._serve(staging)
        return CanaryVerdict(
            reasons=tuple(self._reasons),
            load_seconds=loaded.seconds,
            memory_bytes=memory or None,
            warmup_requests=warmed,
            signatures=tuple(judged),
            answers=compared,
            replay=replayed,
            server=served,
            **limits,
        )

    def _refuse(self, reason: str) -> None:
        self._reasons.append(reason)

    def _call(self, signature: Signature, inputs: Inputs) -> Answer:
        return self._caller.ask(signature.tensors(inputs), list(signature.fetches.values()))

    def _warm_up(self) -> int:
        """Send the warm-up requests of the export; returns their number."""
        count = 0
        try:
            for count, request in enumerate(read_warmup(self._model), 1):
                signature = self._signatures.get(request.signature)
                known = signature is not None and request.inputs.keys() <= signature.feeds.keys()
                if signature is None or not known:
                    self._refuse(f"warm-up request {count} does not fit the signature {request.signature}")
                elif (answer := self._call(signature, request.inputs)).outcome != "answered":
                    what = f"warm-up request {count}, to {request.signature}, was not answered ({answer.outcome})"
                    self._refuse(f"{what}, so TensorFlow Serving would not serve it: {answer.detail}")
        except (tf.errors.OpError, DecodeError) as error:
            self._refuse(f"its warm-up requests cannot be read: {first_line(str(error))}")
        return count

    def _make(self, signature: Signature, python: Any, why_not: str) -> RealInputs | str:
        """The inputs of a signature, or why there are none."""
        if python is None:
            return why_not
        if self._writes_texts and signature.name == SCORE:
            return NOT_SERVED
        if not self._examples.size:
            return "there are no examples"
        try:
            return self._made(signature, python)
        except UnmadeError as error:
            return str(error)
        except tf.errors.OpError as error:
            return f"its inputs cannot be computed of the examples: {first_line(str(error.message))}"

    def _made(self, signature: Signature, python: Any) -> RealInputs:
        description = self._description
        if description is not None and is_generation(signature.name, description):
            return generation_inputs(signature, self._examples, description)
        return make_inputs(signature, python, self._examples, description)

    def _ask(self, signature: Signature, made: RealInputs | str, python: Any) -> SignatureVerdict:
        """Ask one signature with all examples at once, and then one by one."""
        if isinstance(made, str):
            return SignatureVerdict(name=signature.name, skipped=made)
        expected = _expected(python, signature.name, made.inputs)
        if isinstance(expected, str):
            if self._description is not None:  # Headrace exported it, so its inputs are known
                self._refuse(f"{signature.name}: real examples were not answered: {expected}")
            return SignatureVerdict(name=signature.name, skipped=expected)
        answer = self._call(signature, made.inputs)
        if answer.outcome != "answered":
            self._refuse(f"{signature.name}: real examples were not answered ({answer.outcome}): {answer.detail}")
            return SignatureVerdict(name=signature.name, examples=len(self._examples))
        self._peak = max(self._peak, answer.peak)
        found = dict(zip(signature.fetches, answer.arrays, strict=True))
        generated = self._writes_texts or made.generates
        agree = partial(compare, expected, tolerance=self._tolerance, generated=generated, drawn=made.generates)
        largest, differing = agree(found)
        random = ""
        if differing:
            again = _expected(python, signature.name, made.inputs)
            if isinstance(again, str) or agree(again)[1]:
                random = "its answers are random: two calls by TensorFlow's Python differ"
            else:
                self._refuse(f"{signature.name}: {differing}")
        not_compared = random or why_not_drawn(self._tolerance, drawn=made.generates)
        rows = rows_of_many(made, answer.seconds, sum(array.size for array in answer.arrays) // len(self._examples))
        self._probes.append(
            SignatureProbe(
                signature.name,
                made,
                expected,
                len(self._examples),
                self._tolerance,
                random,
                rows,
                generated=generated,
            )
        )
        return SignatureVerdict(
            name=signature.name,
            examples=len(self._examples),
            not_compared=not_compared,
            difference=largest if not not_compared and math.isfinite(largest) else None,
            **({} if made.generates else self._latency(signature, made.inputs)),
        )

    def _serve(self, staging: Staging) -> ServerVerdict:
        """Try the model on a server, unless it may take one down."""
        if self._reasons:
            return ServerVerdict(skipped="the model failed before")
        verdict = examine_on_server(staging.server, staging.pipeline, self._model, self._probes, self._caller.patience)
        for reason in verdict.reasons:
            self._refuse(f"server: {reason}")
        return verdict

    def _as_trained(self, trained: Trained, python: Any, judged_by_replay: bool) -> AnswersVerdict:
        """Compare with the model in the Trainer's memory: the signature that was recorded, and those that give the same
        outputs, up to the first that differs.

        judged_by_replay: whether features that differ from training are accepted, or have refused the model before.
        """
        if (why_not := why_not_compared(trained)) or trained.answers is None:
            return AnswersVerdict(skipped=why_not)
        ask = self._asking(SIGNATURE)
        if isinstance(ask, str):
            return AnswersVerdict(skipped=ask)
        others = self._with_outputs(trained.answers.outputs) if python is not None else ()
        asks: dict[str, Ask] = {SIGNATURE: ask, **{name: self._asking_of(name, python) for name in others}}
        compared = partial(compare_with_trainer, trained.answers, trained.pairs.raw, tolerance=self._tolerance)
        verdict = AnswersVerdict()
        for name, ask in asks.items():
            one = compared(ask, generated=self._writes_texts)
            if one.differing is not None:
                return self._judged(name, one, one.differing, trained.pairs if judged_by_replay else None)
            if name == SIGNATURE and one.skipped:
                return one
            verdict = verdict if one.skipped else one.beside(verdict, name)
        return verdict

    def _judged(
        self, name: str, verdict: AnswersVerdict, differing: DifferentAnswer, pairs: Pairs | None
    ) -> AnswersVerdict:
        """Refuse a signature whose answers differ from the Trainer's, unless its features do. pairs: to find that out;
        None if the replay has found that they do not.
        """
        if pairs is not None and self._replayed(pairs, "transform_features").differing:
            return AnswersVerdict(skipped="features differ from what Transform wrote, and with them the answers")
        where = f"of the split {verdict.split}; {self._tolerance:g} is allowed"
        self._refuse(
            f"{name}: its output {differing.output} differs from that of the Trainer's model in memory in"
            f" {differing.rows:,} of {verdict.examples:,} examples {where}: {differing.words}"
        )
        return verdict

    def _with_outputs(self, outputs: Collection[str]) -> list[str]:
        """The other signatures that give these outputs."""
        return [
            name
            for name, signature in self._signatures.items()
            if name not in {SIGNATURE, SCORE, GENERATE} and {*outputs} <= signature.fetches.keys()
        ]

    def _asking_of(self, name: str, python: Any) -> Ask:
        """What asks a signature with what it takes of serialized examples."""
        signature = self._signatures[name]

        def ask(examples: NDArray[Any]) -> Inputs | str:
            try:
                made = make_inputs(signature, python, examples, self._description)
            except UnmadeError as error:
                return str(error)
            except tf.errors.OpError as error:
                return first_line(str(error.message))
            return self._answers(signature, made.inputs)

        return ask

    def _answers(self, signature: Signature, inputs: Inputs) -> Inputs | str:
        """The outputs by name, or why there are none."""
        answer = self._call(signature, inputs)
        if answer.outcome != "answered":
            return f"{signature.name}: the examples were not answered ({answer.outcome}): {answer.detail}"
        return dict(zip(signature.fetches, answer.arrays, strict=True))

    def _replay(self, replaying: Replaying) -> ReplayVerdict:
        """Compare what Transform wrote with what the signature computes."""
        verdict = self._replayed(replaying.pairs, replaying.signature)
        if verdict.differing and replaying.refuses:
            self._refuse(f"replay: {verdict.words}")
        return verdict

    def _replayed(self, pairs: Pairs, signature: str) -> ReplayVerdict:
        ask = self._asking(signature)
        if isinstance(ask, str):
            return ReplayVerdict(skipped=ask)
        label = None if self._description is None else self._description.label
        labels = () if label is None else (*label.columns, *([label.weight] if label.weight else []))
        return replay(pairs, ask, labels)

    def _asking(self, name: str) -> Ask | str:
        """What asks a signature with serialized examples, or why it cannot be asked."""
        signature = self._signatures.get(name)
        if signature is None:
            return f"the model has no signature {name}"
        if signature.composite:
            return f"{join_names(signature.composite)} of {name} are not dense tensors"
        if [spec.dtype for spec in signature.inputs.values()] != [tf.string]:
            return f"the signature {name} does not take serialized examples"
        (given,) = signature.inputs

        def ask(examples: NDArray[Any]) -> Inputs | str:
            return self._answers(signature, {given: examples})

        return ask

    def _latency(self, signature: Signature, inputs: Inputs) -> dict[str, float]:
        """The latency of requests with one example; empty if one of them was not answered."""

        def ask(one: Inputs) -> float | None:
            answer = self._call(signature, one)
            if answer.outcome != "answered":
                self._refuse(f"{signature.name}: one real example was not answered: {answer.detail}")
                return None
            self._peak = max(self._peak, answer.peak)
            return answer.seconds

        limits = self._limits.latency
        found = measure_latency(ask, inputs, len(self._examples), limits)
        for violation in limits.violations(found, "deploy.canary"):
            self._refuse(f"{signature.name}: {violation}")
        return found

    def _with_odd(self, verdict: SignatureVerdict, made: RealInputs | str) -> SignatureVerdict:
        """The same with what the signature did with odd inputs."""
        if isinstance(made, str) or verdict.skipped:
            return verdict
        return verdict.model_copy(update={"odd": tuple(self._odd(self._signatures[verdict.name], made))})

    def _odd(self, signature: Signature, made: RealInputs) -> Iterator[OddAnswer]:
        answer = self._call(signature, made.inputs)
        width = sum(array.size for array in answer.arrays) // len(self._examples)
        for what, inputs in odd_inputs(made, rows_of_many(made, answer.seconds, width)):
            answer = self._call(signature, inputs)
            odd = OddAnswer(what=what, outcome=answer.outcome, detail=answer.detail)
            if not odd.passed:
                self._refuse(f"{signature.name}: {what}: its process {_ended(answer)}")
            yield odd


def _ended(answer: Answer) -> str:
    return answer.detail if answer.outcome == "crashed" else f"gave {answer.detail}"


def _description(model: Path) -> ModelDescription | None:
    try:
        return ModelDescription.read(model)
    except RunError:  # a run_fn of the user's exported it
        return None


def _load(model: Path) -> tuple[Any, str]:
    """The model in Python, or None and why there is none to compare with."""
    try:
        return tf.saved_model.load(str(model)), ""
    except (OSError, ValueError, tf.errors.OpError) as error:
        return None, f"TensorFlow's Python cannot load the model: {first_line(str(error))}"


def _expected(python: Any, name: str, inputs: Inputs) -> Inputs | str:
    """The answers of TensorFlow's Python, or why there are none."""
    try:
        answers = python.signatures[name](**{key: tf.constant(array) for key, array in inputs.items()})
    except (tf.errors.OpError, TypeError, ValueError) as error:
        return f"TensorFlow's Python does not answer either: {first_line(str(error))}"
    return {key: np.asarray(tensor) for key, tensor in answers.items()}
