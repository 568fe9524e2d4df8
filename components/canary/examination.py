"""The examination of an exported model by its canary.

verdict = examine(serving_dir, examples, Limits(latency_p99_ms=20.0))
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from headrace.components.canary.agreement import compare, why_not_drawn
from headrace.components.canary.caller import PATIENCE, Answer, Caller, first_line
from headrace.components.canary.exported_model import ExportedModel
from headrace.components.canary.inputs import odd_inputs, rows_of_many, texts
from headrace.components.canary.latency import LatencyLimits, measure_latency
from headrace.components.canary.reference import Reference, compare_with_reference
from headrace.components.canary.replay import Pairs, replay_model
from headrace.components.canary.server import SignatureProbe, examine_on_server
from headrace.components.canary.signatures import (
    Inputs,
    RealInputs,
    Signature,
    UnmadeError,
    read_warmup,
)
from headrace.components.canary.verdict import (
    AnswersVerdict,
    CanaryVerdict,
    OddAnswer,
    ReplayVerdict,
    ServerVerdict,
    SignatureVerdict,
)
from headrace.configs.schema.serving import CanaryServer
from headrace.trainer.served_model import SCORE

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
    reference: Reference | None = None,
    replaying: Replaying | None = None,
    staging: Staging | None = None,
) -> CanaryVerdict:
    """The verdict on a SavedModel, for serialized tf.Examples. patience: seconds for one answer.

    Raises RunError if the staging server cannot be asked, and that is not to be passed over.
    """
    with Caller(model, patience) as caller, _plain_python():
        caller.start()
        examination = _Examination(ExportedModel(model, caller), caller, texts(examples), limits)
        return examination.verdict(reference, replaying, staging)


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

    def __init__(self, model: ExportedModel, caller: Caller, examples: NDArray[Any], limits: Limits) -> None:
        self._model, self._caller, self._examples, self._limits = model, caller, examples, limits
        self._reasons: list[str] = []
        self._peak = 0
        self._probes: list[SignatureProbe] = []

    def verdict(
        self, reference: Reference | None, replaying: Replaying | None, staging: Staging | None
    ) -> CanaryVerdict:
        limits: dict[str, Any] = self._limits._asdict()
        if self._model.python is None:
            self._refuse(self._model.load_error)
        made = {name: self._make_inputs(signature) for name, signature in self._model.signatures.items()}
        expected = {name: self._expect(name, inputs) for name, inputs in made.items()}  # while the process loads it
        loaded = self._caller.load()
        if loaded.outcome != "answered":
            self._refuse(f"TensorFlow's C++ loader cannot load it: {loaded.detail}")
            return CanaryVerdict(reasons=tuple(self._reasons), **limits)
        self._peak = loaded.peak
        warmed = self._warm_up()
        answered = [self._ask(self._model.signatures[name], inputs, expected[name]) for name, inputs in made.items()]
        memory = self._judge_memory()
        replayed = None if replaying is None else self._replay(replaying)
        features_may_differ = replaying is None or not replaying.refuses or bool(replayed and replayed.differing)
        compared = None if reference is None else self._compare_with_reference(reference, features_may_differ)
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

    def _warm_up(self) -> int:
        """Send the warm-up requests of the export; returns their number."""
        count = 0
        try:
            for count, request in enumerate(read_warmup(self._model.folder), 1):
                signature = self._model.signatures.get(request.signature)
                known = signature is not None and request.inputs.keys() <= signature.feeds.keys()
                if signature is None or not known:
                    self._refuse(f"warm-up request {count} does not fit the signature {request.signature}")
                elif (answer := self._model.request(signature, request.inputs)).outcome != "answered":
                    what = f"warm-up request {count}, to {request.signature}, was not answered ({answer.outcome})"
                    self._refuse(f"{what}, so TensorFlow Serving would not serve it: {answer.detail}")
        except (tf.errors.OpError, DecodeError) as error:
            self._refuse(f"its warm-up requests cannot be read: {first_line(str(error))}")
        return count

    def _make_inputs(self, signature: Signature) -> RealInputs | str:
        """The inputs of a signature, or why there are none."""
        if self._model.python is None:
            return self._model.load_error
        if self._model.writes_texts and signature.name == SCORE:
            return NOT_SERVED
        if not self._examples.size:
            return "there are no examples"
        try:
            return self._model.make_inputs(signature, self._examples)
        except UnmadeError as error:
            return str(error)

    def _expect(self, name: str, made: RealInputs | str) -> Inputs | str:
        """What a signature answers in TensorFlow's Python, or why it does not."""
        return made if isinstance(made, str) else self._model.python_outputs(name, made.inputs)

    def _ask(self, signature: Signature, made: RealInputs | str, expected: Inputs | str) -> SignatureVerdict:
        """Ask one signature with all examples at once, and then one by one."""
        if isinstance(made, str):
            return SignatureVerdict(name=signature.name, skipped=made)
        if isinstance(expected, str):
            if self._model.description is not None:  # Headrace exported it, so its inputs are known
                self._refuse(f"{signature.name}: real examples were not answered: {expected}")
            return SignatureVerdict(name=signature.name, skipped=expected)
        answer = self._model.request(signature, made.inputs)
        if answer.outcome != "answered":
            self._refuse(f"{signature.name}: real examples were not answered ({answer.outcome}): {answer.detail}")
            return SignatureVerdict(name=signature.name, examples=len(self._examples))
        self._peak = max(self._peak, answer.peak)
        largest, random = self._compare_with_python(signature, made, expected, answer)
        not_compared = random or why_not_drawn(self._model.tolerance, drawn=made.generates)
        self._probes.append(
            SignatureProbe(
                signature.name,
                made,
                expected,
                len(self._examples),
                self._model.tolerance,
                random,
                self._rows_of_many(made, answer),
                generated=self._model.writes_texts or made.generates,
            )
        )
        return SignatureVerdict(
            name=signature.name,
            examples=len(self._examples),
            not_compared=not_compared,
            difference=largest if not not_compared and math.isfinite(largest) else None,
            **({} if made.generates else self._latency(signature, made.inputs)),
        )

    def _compare_with_python(
        self, signature: Signature, made: RealInputs, expected: Inputs, answer: Answer
    ) -> tuple[float, str]:
        """The largest difference, and why random answers are not compared; others that differ are refused."""
        generated = self._model.writes_texts or made.generates
        agree = partial(compare, expected, tolerance=self._model.tolerance, generated=generated, drawn=made.generates)
        largest, differing = agree(dict(zip(signature.fetches, answer.arrays, strict=True)))
        if differing:
            again = self._model.python_outputs(signature.name, made.inputs)
            if isinstance(again, str) or agree(again)[1]:
                return largest, "its answers are random: two calls by TensorFlow's Python differ"
            self._refuse(f"{signature.name}: {differing}")
        return largest, ""

    def _rows_of_many(self, made: RealInputs, answer: Answer) -> int:
        """The rows of the largest request. answer: to the real examples."""
        width = sum(array.size for array in answer.arrays) // len(self._examples)
        return rows_of_many(made, answer.seconds, width)

    def _judge_memory(self) -> int:
        """Refuse a model whose process takes more than it may; returns the bytes that it takes."""
        memory, limit = self._peak, self._limits.memory_mb
        if limit is not None and memory > limit * MEGABYTE:
            self._refuse(
                f"its process takes {memory / MEGABYTE:,.0f} MB of memory;"
                f" deploy.canary.memory_mb allows {limit:,.0f} MB"
            )
        return memory

    def _serve(self, staging: Staging) -> ServerVerdict:
        """Try the model on a server, unless it may take one down."""
        if self._reasons:
            return ServerVerdict(skipped="the model failed before")
        verdict = examine_on_server(
            staging.server, staging.pipeline, self._model.folder, self._probes, self._caller.patience
        )
        for reason in verdict.reasons:
            self._refuse(f"server: {reason}")
        return verdict

    def _compare_with_reference(self, reference: Reference, features_may_differ: bool) -> AnswersVerdict:
        verdict, refusal = compare_with_reference(self._model, reference, features_may_differ=features_may_differ)
        if refusal:
            self._refuse(refusal)
        return verdict

    def _replay(self, replaying: Replaying) -> ReplayVerdict:
        """Compare what Transform wrote with what the signature computes."""
        verdict = replay_model(self._model, replaying.pairs, replaying.signature)
        if verdict.differing and replaying.refuses:
            self._refuse(f"replay: {verdict.words}")
        return verdict

    def _latency(self, signature: Signature, inputs: Inputs) -> dict[str, float]:
        """The latency of requests with one example; empty if one of them was not answered."""

        def ask_each() -> list[float]:
            answers = self._model.request_each(signature, inputs, len(self._examples))
            if answers[-1].outcome != "answered":
                self._refuse(f"{signature.name}: one real example was not answered: {answers[-1].detail}")
                return []
            self._peak = max(self._peak, answers[-1].peak)
            return [answer.seconds for answer in answers]

        limits = self._limits.latency
        found = measure_latency(ask_each, limits)
        for violation in limits.violations(found, "deploy.canary"):
            self._refuse(f"{signature.name}: {violation}")
        return found

    def _with_odd(self, verdict: SignatureVerdict, made: RealInputs | str) -> SignatureVerdict:
        """The same with what the signature did with odd inputs."""
        if isinstance(made, str) or verdict.skipped:
            return verdict
        return verdict.model_copy(update={"odd": tuple(self._odd(self._model.signatures[verdict.name], made))})

    def _odd(self, signature: Signature, made: RealInputs) -> Iterator[OddAnswer]:
        answer = self._model.request(signature, made.inputs)
        for what, inputs in odd_inputs(made, self._rows_of_many(made, answer)):
            answer = self._model.request(signature, inputs)
            odd = OddAnswer(what=what, outcome=answer.outcome, detail=answer.detail)
            if not odd.passed:
                self._refuse(f"{signature.name}: {what}: its process {_ended(answer)}")
            yield odd


def _ended(answer: Answer) -> str:
    return answer.detail if answer.outcome == "crashed" else f"gave {answer.detail}"
