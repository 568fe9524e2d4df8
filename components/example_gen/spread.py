"""Tasks spread over Beam's workers, or over as many of our own where Beam would use threads of this process."""

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

from headrace.components.example_gen.sources.base import Result, Task
from headrace.components.example_gen.workers import Workers, can_fork
from headrace.configs.errors import HeadraceError, RunError

_CODE = hashlib.sha256().digest_size


class BeamSpread:
    """Calls a function on each task in a Beam pipeline. Unless Beam has to do `always`, a single task needs none; and
    where Beam would use threads of this process, `workers` are used, or else threads without Beam, which takes a
    quarter of a second to start.

    The results of a Beam pipeline come back through files, because it returns nothing. Workers elsewhere write them on
    storage that others may write to as well, so a pickle is only loaded if it carries the code of a key that nobody but
    this process and its workers has. If tasks fail with a HeadraceError or an OSError, the error of the first one in
    order is raised as it is.
    """

    def __init__(
        self,
        make_pipeline: Callable[[], beam.Pipeline],
        work: Path,
        threads: int,
        workers: Workers | None = None,
        *,
        always: bool = False,
    ) -> None:
        """`work`: an existing folder; `threads`: see `threads_of`; `workers`: as many processes; `always`: every task
        goes through Beam, on whatever machine, and `threads` is 0.
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
        seal = Seal(secrets.token_bytes())
        with self._make_pipeline() as pipeline:
            _ = pipeline | "Tasks" >> beam.Create(list(enumerate(tasks))) | label >> CallEach(function, results, seal)
        return [_result(results / str(number), seal) for number in range(len(tasks))]

    @property
    def takes_small_work(self) -> bool:
        """Whether work is given to it that is done sooner than a Beam pipeline starts."""
        return self.always or bool(self._threads)


def threads_of(make_pipeline: Callable[[], beam.Pipeline]) -> int:
    """How many threads of this process Beam would use; 0 where it uses something else."""
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
class Seal:
    """Pickles in files, each with a message authentication code (HMAC-SHA-256) for its place. `key`: a secret."""

    key: bytes = field(repr=False)

    def write(self, path: Path, result: object) -> None:
        """Write a result."""
        text = pickle.dumps(result)
        path.write_bytes(self._code(path, text) + text)

    def read(self, path: Path) -> Any:
        """The result. Raises RunError for a file that was not written so."""
        content = path.read_bytes()
        text = content[_CODE:]
        if not hmac.compare_digest(content[:_CODE], self._code(path, text)):
            raise RunError(
                f"{path} is not as a Beam worker of this run wrote it, so it is not read.\n"
                "  Run again; look who can write to the pipeline's folder if it recurs."
            )
        return pickle.loads(text)  # noqa: S301 - from a holder of the key

    def _code(self, path: Path, text: bytes) -> bytes:
        return hmac.digest(self.key, path.name.encode() + b"\0" + text, "sha256")


class CallEach(beam.PTransform):
    """(number, task) → a file `results/number` with the pickled result, or the pickled error."""

    def __init__(self, function: Callable[[Any], object], results: Path, seal: Seal) -> None:
        super().__init__()
        self._function, self._results, self._seal = function, results, seal

    def expand(self, tasks: beam.PCollection) -> beam.PCollection:
        """Spread the tasks over the workers, whatever was fused before."""
        return (
            tasks
            | "Spread" >> beam.Reshuffle()
            | "Call" >> beam.ParDo(_Call(self._function, self._results, self._seal))
        )


class _Call(beam.DoFn):
    def __init__(self, function: Callable[[Any], object], results: Path, seal: Seal) -> None:
        super().__init__()
        self._function, self._results, self._seal = function, results, seal

    def process(self, element: tuple[int, object]) -> Iterable[int]:
        number, task = element
        if self._failed_before(number):
            return
        try:
            result = self._function(task)
        except (HeadraceError, OSError) as error:
            (self._results / f"{number}.failed").touch()
            result = error
        self._seal.write(self._results / str(number), result)
        yield number

    def _failed_before(self, number: int) -> bool:
        """Whether the run ends with an error in an earlier task, so that this one is not worth while."""
        return any(int(path.stem) < number for path in self._results.glob("*.failed"))


def _result(path: Path, seal: Seal) -> Any:
    result = seal.read(path)
    if isinstance(result, HeadraceError | OSError):
        raise result
    return result
