"""The rules of `predict:`, the new data that each run predicts at its end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from glob import has_magic
from os.path import normpath
from pathlib import Path

from headrace.common.names import join_names
from headrace.configs.rules.rule import Rule, Violation
from headrace.configs.schema.data import PLACEHOLDER, DataConfig, placeholder_error, placeholders
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
        yield OUTPUT, f"{predict.output}: the ending names no format; use one of {', '.join(OUTPUT_ENDINGS)}"


def predicted_spans_are_in_the_paths(predict: PredictConfig | None) -> Iterator[Violation]:
    """The placeholders of all paths of the new data are the same, and the output has no others."""
    if predict is None:
        return
    paths = predict.source.patterns if isinstance(predict.source, FileSource) else ()
    for path in paths:
        if error := placeholder_error(path):
            yield (*SOURCE, "path"), error
            return
        if placeholders(path) != placeholders(paths[0]):
            yield (*SOURCE, "path"), f"{path} and {paths[0]} have different placeholders; use the same in all paths"
            return
    unknown = re.search(r"\{[^}]*\}?", PLACEHOLDER.sub("", predict.output))
    strange = [f"{{{name}}}" for name in sorted(placeholders(predict.output) - (predict.placeholders - {"VERSION"}))]
    if unknown:
        yield OUTPUT, f"`{unknown[0]}` is not a placeholder; available are {{SPAN}}, or {{YYYY}}, {{MM}} and {{DD}}"
    elif strange:
        what = f"has {join_names(strange)}, which the paths of predict.source do not have"
        yield OUTPUT, f"{what}; use the same placeholders in both"
    if predict.window != 1 and not predict.placeholders:
        what = "no path of predict.source contains {SPAN}, or {YYYY}, {MM} and {DD}; add them, or remove window"
        yield ("predict", "window"), what


def new_data_has_no_splits(predict: PredictConfig | None) -> Iterator[Violation]:
    if predict is not None and predict.source.split_names:
        where = next(name for name in predict.source.by_split if isinstance(getattr(predict.source, name), dict))
        yield (*SOURCE, where), "data to predict has no splits; name its files in a list"


def password_of_new_data_is_in_a_variable(predict: PredictConfig | None) -> Iterator[Violation]:
    """The value is not shown, because it may be the password."""
    variable = getattr(predict.source, "password_env", None) if predict is not None else None
    if variable is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
        what = "this is not the name of an environment variable, such as DB_PASSWORD; put the password into one"
        yield (*SOURCE, "password_env"), f"{what}, and its name here"


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


RULES: tuple[Rule, ...] = (
    predictions_have_a_format,
    predicted_spans_are_in_the_paths,
    new_data_has_no_splits,
    password_of_new_data_is_in_a_variable,
    predictions_are_not_read,
)
