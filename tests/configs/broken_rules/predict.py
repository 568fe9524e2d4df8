"""Configs that break the rules of `predict:`."""

from __future__ import annotations

from broken_rules.sections import Broken


def predict(path: str, output: str, more: str = "") -> str:
    """The section. path: of CSV files, as YAML."""
    return f"predict: {{source: {{kind: csv, path: {path}}}, output: '{output}'{more}}}"


BROKEN: Broken = {
    "predictions_have_a_format": [
        (predict("new.csv", "scored.txt"), "1: predict.output: use one of .parquet, .csv"),
        (predict("new.csv", "s3://bucket/scored.csv"), "1: predict.output: is a URI"),
    ],
    "predicted_spans_are_in_the_paths": [
        (predict("'{SPAN]/new.csv'", "out.csv"), "1: predict.source.path: is not a placeholder"),
        (predict("['{SPAN}.csv', 'new.csv']", "out/a.csv"), "1: predict.source.path: different placeholders"),
        (predict("new.csv", "scored/{DAY}.csv"), "1: predict.output: `{DAY}` is not a placeholder"),
        (predict("new.csv", "scored/{SPAN}.csv"), "1: predict.output: has {SPAN}, which the paths"),
        (predict("'{SPAN}/v{VERSION}.csv'", "scored/{VERSION}.csv"), "1: predict.output: has {VERSION}"),
        (predict("new.csv", "out.csv", ", window: 2"), "1: predict.window: contains {SPAN}"),
    ],
    "new_data_has_no_splits": [
        (predict("{train: a.csv, eval: b.csv}", "c.csv"), "1: predict.source.path: has no splits"),
    ],
    "password_of_new_data_is_in_a_variable": [
        (
            "predict: {source: {kind: sql, url: 'sqlite:///a', query: select 1, password_env: 'hunter 2'},"
            " output: out.csv}",
            "1: predict.source.password_env: put the password into one",
        ),
    ],
    "predictions_are_not_read": [
        (predict("new/*.csv", "new/scored.csv"), "1: predict.output: is among the files of predict.source (new/*.csv)"),
        (predict("'new/{SPAN}.csv'", "new/{SPAN}.csv"), "1: predict.output: put it into another folder"),
        (predict("./new", "new/scored.csv"), "1: predict.output: is among the files"),
        (predict("new", "new/old/scored.csv"), "1: predict.output: is among the files"),
        (predict("'new/**/*.csv'", "new/scored.csv"), "1: predict.output: is among the files"),
        (predict("'new/**/*.csv'", "new/a/b/scored.csv"), "1: predict.output: is among the files"),
        (predict("'new/**'", "new/a/b/scored.csv"), "1: predict.output: is among the files"),
        (predict("'new/{SPAN}'", "new/{SPAN}/scored.csv"), "1: predict.output: is among the files"),
        (predict("new.csv", "./a.csv"), "1: predict.output: is among the files of data.source (a.csv)"),
    ],
}
