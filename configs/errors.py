"""Every error a user can cause, as one small tree. The command line prints these as they are, without a traceback.

HeadraceError
├── ConfigError        the YAML file, an overlay or a --set value is wrong (carries every mistake at once)
├── DataError          the data cannot be read, or is not what the config says (names file, line and column)
├── GateError          the data was read and judged unfit: anomalies, missing labels
├── TrainingError      training cannot start or go on: a hook that is no function, a loss that is not a number
│   └── TrainingStoppedError  training was asked to end, and can go on from a checkpoint
├── RunError           a run could not be carried out: a component failed, another run holds the lock
│   └── UntrainedError    a run came to no training, so that there is nothing of it to share
├── ServerError        a server cannot be reached, refuses, or fails
└── MissingDependencyError  something is missing from the machine (what `headrace doctor` looks for)
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.configs.credentials import without


class HeadraceError(Exception):
    """The root of the tree. `str(error)` is the whole message for the user, with the way out, and never a credential:
    it goes to the terminal, into logs, run records, reports and Kubernetes' termination messages.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(without(each) if isinstance(each, str) else each for each in args))

    def __str__(self) -> str:
        return without(super().__str__())


@dataclass(frozen=True)
class Problem:
    """One mistake in a config file.

    where: `configs/taxi.yaml:12`, or `--set train.epochs=x`; what: one or two sentences in the user's words.
    """

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class ConfigError(HeadraceError):
    """All the mistakes found in one reading of the config, in file order."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = tuple(Problem(without(each.where), without(each.what)) for each in problems)
        super().__init__("\n".join(map(str, problems)))


class DataError(HeadraceError):
    """Bad input data.

    `file` and `line` (1-based, the line a text editor shows) and `column` (a header name) are None where they have no
    meaning. `what` says what was found and what was expected; `hint` says what to change.
    """

    def __init__(
        self, what: str, *, file: str | None = None, line: int | None = None, column: str | None = None, hint: str = ""
    ) -> None:
        self.what, self.file, self.line, self.column, self.hint = what, file, line, column, hint
        place = ":".join(str(part) for part in (file, line) if part is not None)
        named = f"column {column!r}: " if column is not None else ""
        message = f"{place}: {named}{what}" if place else f"{named}{what}"
        super().__init__(f"{message}\n  {hint}" if hint else message)

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the fields when the error crosses from a Beam worker process."""
        return _data_error, (self.what, self.file, self.line, self.column, self.hint)


def _data_error(what: str, file: str | None, line: int | None, column: str | None, hint: str) -> DataError:
    return DataError(what, file=file, line=line, column=column, hint=hint)


class GateError(HeadraceError):
    """The data is unfit for training: one line for each anomaly, naming column, rule and values."""


class TrainingError(HeadraceError):
    """Training cannot start, or must not go on."""


class TrainingStoppedError(TrainingError):
    """Training was asked to end before its end, and can go on from a checkpoint."""


class RunError(HeadraceError):
    """A run could not be carried out."""


class UntrainedError(RunError):
    """There is no training to share. `short`: which run, or runs, without the paths of this machine."""

    def __init__(self, what: str, short: str) -> None:
        self.short = short
        super().__init__(what)


class ServerError(HeadraceError):
    """A server did not do what it was asked to. `status`: of HTTP; None where there was no answer. `slow`: as it took
    too long.
    """

    def __init__(self, what: str, status: int | None = None, *, slow: bool = False) -> None:
        self.status, self.slow = status, slow
        super().__init__(what)


class MissingDependencyError(HeadraceError):
    """Something that the run needs is not on this machine."""
