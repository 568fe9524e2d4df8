"""The rules of `predict:`, the new data that each run predicts at its end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from glob import has_magic
from os.path import normpath
from pathlib import Path

from headrace.common.names import join_names
from headrace.configs.rules.further_sources import password_errors, path_errors, split_errors, window_errors
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.data import PLACEHOLDER, DataConfig, placeholders
from headrace.configs.schema.predict import OUTPUT_ENDINGS, PredictConfig
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.sources import FileSource

OUTPUT: KeyPath = ("predict", "output")
SOURCE: KeyPath = ("predict", "source")


def predictions_have_a_format(predict: PredictConfig | None) -> Iterator[Violation]:
    if predict is None:
        return
    if "://" in predict.output:
        what = f"{predict.output} is a URI; use a path, which on Kubeflow is below kubeflow.pipeline_root"
        yield OUTPUT, what
    elif not predict.format:
        yield (
            OUTPUT,
            f"{predict.output}: the ending is not that of a format; use one of {', '.join(OUTPUT_ENDINGS)}",
        )


def predicted_spans_are_in_the_paths(predict: PredictConfig | None) -> Iterator[Violation]:
    """The placeholders of all paths of the new data are the same, and the output has no others."""
    if predict is None:
        return
    if errors := [*path_errors(SOURCE, predict.source)]:
        yield from errors
        return
    unknown = re.search(r"\{[^}]*\}?", PLACEHOLDER.sub("", predict.output))
    strange = [f"{{{name}}}" for name in sorted(placeholders(predict.output) - (predict.placeholders - {"VERSION"}))]
    if unknown:
        yield OUTPUT, f"`{unknown[0]}` is not a placeholder; available are {{SPAN}}, or {{YYYY}}, {{MM}} and {{DD}}"
    elif strange:
        what = f"has {join_names(strange)}, which the paths of predict.source do not have"
        yield OUTPUT, f"{what}; use the same placeholders in both"
    yield from window_errors(("predict",), predict.source, predict.window)


def new_data_has_no_splits(predict: PredictConfig | None) -> Iterator[Violation]:
    if predict is not None:
        yield from split_errors(SOURCE, predict.source, "data to predict has")


def password_of_new_data_is_in_a_variable(predict: PredictConfig | None) -> Iterator[Violation]:
    if predict is not None:
        yield from password_errors(SOURCE, predict.source)


def predictions_are_not_read(predict: PredictConfig | None, data: DataConfig) -> Iterator[Violation]:
    """A later run would otherwise read the output of an earlier one, or the output would replace what is read."""
    if predict is None:
        return
    output = Path(normpath(Path(PLACEHOLDER.sub("0", predict.output)).absolute())).parts
    for setting, source in (("predict.source", predict.source), ("data.source", data.source)):
        for path in source.patterns if isinstance(source, FileSource) else ():
            pattern = Path(normpath(Path(PLACEHOLDER.sub("*", path)).absolute())).parts
            if "://" not in path and _reads(pattern, output, folder=not has_magic(path)):
                yield OUTPUT, f"{predict.output} is among the files of {setting} ({path}); put it into another folder"
                return


def _reads(pattern: Sequence[str], path: Sequence[str], *, folder: bool) -> bool:
    """Whether a file is one of a pattern. Both are divided at their slashes.

    folder: whether the pattern may be a folder that is read with all that is below it.
    """
    if not pattern:
        return folder or not path
    if not path:
        return False
    if pattern[0] == "**":
        rest = pattern[1:] or ("*",)
        return _reads(rest, path, folder=folder) or _reads(pattern, path[1:], folder=folder)
    return fnmatchcase(path[0], pattern[0]) and _reads(pattern[1:], path[1:], folder=folder)
