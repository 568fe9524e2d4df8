"""A parallel map over Beam's workers, or over our own where Beam would use threads of this process."""

from __future__ import annotations

import hashlib
import hmac
import os
import pickle
import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from headrace.common.errors import HeadraceError, RunError
from headrace.components.example_gen.workers import ForkedWorkers, can_fork
from headrace.components.sources.base import Result, Task

_DIGEST = hashlib.sha256().digest_size


class BeamMap:
    """Calls a function on each task in a Beam pipeline, or without one where that is faster.

    A single task runs in the caller. Where Beam would use threads of this process, forked workers are used, or else
    threads without Beam, which takes a quarter of a second to start. With `always`, every task goes through Beam.

    A Beam pipeline returns nothing, so its results come back as files. Workers on other machines write them to storage
    that others may be able to write to, so a pickle is loaded only if it is signed with a key that nobody but this
    process and its workers has. If tasks fail with a HeadraceError or an OSError, the error of the first one in order
    is raised unchanged.
    """

    def __init__(
        self,
        make_pipeline: Callable[[], beam.Pipeline],
        work: Path,
        threads: int,
        workers: ForkedWorkers | None = None,
        *,
        always: bool = False,
    ) -> None:
        """Prepare a map.

        Args:
            make_pipeline: makes an empty Beam pipeline.
            work: an existing folder for results.
            threads: as `local_threads` returns it; 0 with `always`.
            workers: the same number of processes, to be used instead of threads.
            always: run every task in Beam.
        """
        self.always = always
        self._make_pipeline, self._work, self._threads, self._workers = make_pipeline, work, threads, workers

    def __call__(self, label: str, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> list[Result]:
        """The results in the order of the tasks."""
        if not tasks or (len(tasks) == 1 and not self.always):
            return [function(task) for task in tasks]
        if self._threads > 1 and self._workers is not None and can_fork():
            return self._workers(function, tasks)
        if self._threads:
            return in_threads(self._threads, function, tasks)
        results = self._work / label
        results.mkdir()
        signed = SignedPickles(secrets.token_bytes())
        with self._make_pipeline() as pipeline:
            numbered = pipeline | "Tasks" >> beam.Create(list(enumerate(tasks)))
            _ = numbered | label >> CallEach(function, results, signed)
        return [_result(results / str(number), signed) for number in range(len(tasks))]

    @property
    def in_beam(self) -> bool:
        """Whether each call starts a Beam pipeline."""
        return self.always or not self._threads

    @property
    def takes_small_work(self) -> bool:
        """Whether it is worth using for work that takes less time than a Beam pipeline takes to start."""
        return self.always or bool(self._threads)


def local_threads(make_pipeline: Callable[[], beam.Pipeline]) -> int:
    """The number of threads of this process that Beam would use; 0 if it uses something else."""
    pipeline = make_pipeline()
    direct = pipeline.options.view_as(DirectOptions)
    here = {"in_memory": 1, "multi_threading": direct.direct_num_workers or os.cpu_count() or 1}
    return here.get(direct.direct_running_mode, 0) if isinstance(pipeline.runner, FnApiRunner) else 0


def in_threads(number: int, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """The results in the order of the tasks. Raises the error of the first task, in order, that fails."""
    if number == 1:
        return [function(task) for task in tasks]
    with ThreadPoolExecutor(number) as pool:
        try:
            return list(pool.map(function, tasks))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@dataclass(frozen=True)
class SignedPickles:
    """Pickles in files, each with a message authentication code (HMAC-SHA-256) of its name and content."""

    key: bytes = field(repr=False)

    def write(self, path: Path, result: object) -> None:
        text = pickle.dumps(result)
        path.write_bytes(self._code(path, text) + text)

    def read(self, path: Path) -> Any:
        """Read a result. Raises RunError if the file is not what `write` wrote."""
        content = path.read_bytes()
        text = content[_DIGEST:]
        if not hmac.compare_digest(content[:_DIGEST], self._code(path, text)):
            raise RunError(
                f"{path} was not written by a Beam worker of this run, or was changed since, so it is not read.\n"
                "  Run again; if it recurs, check who can write to the pipeline's folder."
            )
        return pickle.loads(text)  # noqa: S301 - signed with our key

    def _code(self, path: Path, text: bytes) -> bytes:
        return hmac.digest(self.key, path.name.encode() + b"\0" + text, "sha256")


class CallEach(beam.PTransform):
    """(number, task) → a file `results/number` with the pickled result or error."""

    def __init__(self, function: Callable[[Any], object], results: Path, signed: SignedPickles) -> None:
        super().__init__()
        self._function, self._results, self._signed = function, results, signed

    def expand(self, tasks: beam.PCollection) -> beam.PCollection:
        """Reshuffle first, to prevent fusion with what created the tasks."""
        return (
            tasks
            | "Spread" >> beam.Reshuffle()
            | "Call" >> beam.ParDo(_Call(self._function, self._results, self._signed))
        )


class _Call(beam.DoFn):
    def __init__(self, function: Callable[[Any], object], results: Path, signed: SignedPickles) -> None:
        super().__init__()
        self._function, self._results, self._signed = function, results, signed

    def process(self, element: tuple[int, object]) -> Iterable[int]:
        number, task = element
        if self._failed_before(number):
            return
        try:
            result = self._function(task)
        except (HeadraceError, OSError) as error:
            (self._results / f"{number}.failed").touch()
            result = error
        self._signed.write(self._results / str(number), result)
        yield number

    def _failed_before(self, number: int) -> bool:
        """Whether an earlier task has failed, so that the result of this one would not be used."""
        return any(int(path.stem) < number for path in self._results.glob("*.failed"))


def _result(path: Path, signed: SignedPickles) -> Any:
    result = signed.read(path)
    if isinstance(result, HeadraceError | OSError):
        raise result
    return result
