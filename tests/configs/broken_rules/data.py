"""Configs that break the rules of `data:`, splits and spans."""

from __future__ import annotations

from broken_rules.sections import SOURCE, Broken

BROKEN: Broken = {
    "folders_are_not_uris": [
        (
            "deploy: {push: 'hdfs://models/{name}'}",
            "1: deploy.push: use s3://, gs:// or minio://",
        ),
        (
            "deploy: {push: 's3://models/'}",
            "1: deploy.push: s3://models/ does not name a folder in a bucket",
        ),
        (
            "pipeline: {name: taxi, root: gs://runs}",
            "1: pipeline.root: a folder, which on Kubeflow",
        ),
    ],
    "password_is_in_a_variable": [
        (
            "data: {source: {kind: sql, url: 'postgresql://u@h/d', table: t, password_env: 'hunter2!'}}",
            "1: data.source.password_env: environment variable",
        )
    ],
    "splits_include_train_and_eval": [
        (
            f"data: {{{SOURCE}, splits: {{train: 8, evl: 1}}}}",
            '1: data.splits: did you mean "evl"?',
        )
    ],
    "split_names_are_valid": [
        (
            f"data: {{{SOURCE}, splits: {{train: 8, eval: 1, a/b: 1}}}}",
            '1: data.splits.a/b: "a/b" becomes part of a folder',
        )
    ],
    "splits_with_own_data_are_known": [
        (
            "data: {source: {kind: csv, path: {train: a.csv, validation: b.csv}}}",
            "1: data.source.path.validation: the split for early stopping is called `eval`",
        ),
        (
            "data: {source: {kind: sql, url: 'sqlite:////a.db', table: {train: a, tset: b}}}",
            '1: data.source.table.tset: did you mean "test"?',
        ),
        (
            "data: {source: {kind: csv, path: {eval: a.csv, test: b.csv}}}",
            "1: data.source.path: none for `train`",
        ),
    ],
    "rows_are_split_in_one_way": [
        (
            "data: {source: {kind: csv, path: {train: a.csv, test: b.csv}}, split_by: day}",
            "1: data.split_by: each split has its own files",
        ),
        (
            "data: {source: {kind: csv, path: 'a-{SPAN}.csv'}, window: 3, split_spans: {test: 1}, split_column: fold}",
            "1: data.split_column: data.split_spans says which spans",
        ),
        (
            "data: {source: {kind: csv, path: {train: 'a{SPAN}', test: 'b{SPAN}'}}, window: 3, split_spans: {eval: 1}}",
            "1: data.split_spans: each split has its own files",
        ),
    ],
    "stratified_rows_are_split_by_hash": [
        (f"data: {{{SOURCE}, stratify: sex, split_key: user}}", '1: data.stratify: "user" (data.split_key)'),
        (
            "data: {source: {kind: csv, path: {train: a, eval: b}}, stratify: true}",
            "1: data.stratify: each split has its own rows",
        ),
        (
            f"data: {{{SOURCE}, stratify: true}}\nlabel: {{key: y, kind: regression}}",
            "1: data.stratify: a regression label has no classes",
        ),
        (
            f"data: {{{SOURCE}, stratify: true}}\nlabel: {{key: y, kind: multilabel, classes: 3, separator: '|'}}",
            "1: data.stratify: may have several classes in a row",
        ),
    ],
    "split_spans_leave_some_to_train": [
        (
            f"data: {{{SOURCE}, split_spans: {{test: 1}}}}",
            "1: data.split_spans: no path contains {SPAN}",
        ),
        (
            "data: {source: {kind: csv, path: 'a-{SPAN}.csv'}, window: 2, split_spans: {eval: 1, test: 1}}",
            "1: data.split_spans: set data.window to 3 or more",
        ),
        (
            "data: {source: {kind: csv, path: 'a-{SPAN}.csv'}, window: 2, split_spans: {train: 1}}",
            "1: data.split_spans.train: all spans that are not listed",
        ),
        (
            "data: {source: {kind: csv, path: 'a-{SPAN}.csv'}, window: 2, split_spans: {tset: 1}}",
            '1: data.split_spans.tset: did you mean "test"?',
        ),
    ],
    "one_column_decides_the_split": [
        (f"data: {{{SOURCE}, split_column: fold, split_key: user}}", "1: data.split_key: remove one of both"),
        (f"data: {{{SOURCE}, split_by: day, split_key: user}}", '1: data.split_key: "day" (data.split_by)'),
        (f"data: {{{SOURCE}, split_column: fold, split_key: [shop, user]}}", "1: data.split_key: remove one of both"),
        (f"data: {{{SOURCE}, split_values: {{eval: [dev]}}}}", "1: data.split_values: name that column"),
    ],
    "groups_can_be_divided": [
        (
            "data: {source: {kind: csv, path: {train: a, eval: b}}, split_key: user}",
            "1: data.split_key: each split has its own rows",
        ),
        (f"data: {{{SOURCE}, split_key: y}}\nlabel: {{key: y, kind: binary}}", '1: data.split_key: "y" is the label'),
        (f"data: {{{SOURCE}, split_key: [shop, user, shop]}}", '1: data.split_key[2]: "shop" is named twice'),
    ],
    "rows_of_spans_keep_their_split": [
        (
            "data: {source: {kind: csv, path: 'a-{SPAN}.csv'}, split_by: day}",
            "1: data.split_by: use split_spans, split_key or split_column",
        )
    ],
    "split_values_are_of_one_split": [
        (
            f"data: {{{SOURCE}, split_column: fold, split_values: {{evl: [dev]}}}}",
            '1: data.split_values.evl: did you mean "eval"?',
        ),
        (
            f"data: {{{SOURCE}, split_column: fold, split_values: {{train: [0, 1], eval: [1]}}}}",
            '1: data.split_values.eval: "1" is also a value of train',
        ),
        (
            f"data: {{{SOURCE}, split_column: fold, split_values: {{train: [test]}}}}",
            '1: data.split_values.train: "test" is a split of its own',
        ),
    ],
    "types_fit_delimited_text": [
        (
            f"data: {{{SOURCE}, types: {{tags: int list}}}}",
            "1: data.types.tags: CSV, where a field holds one text",
        ),
        (
            f"data: {{{SOURCE}, types: {{picture: bytes}}}}",
            "1: data.types.picture: CSV, where a field holds one text",
        ),
    ],
    "bad_records_can_be_skipped": [
        (
            f"data: {{source: {source}, on_bad_record: skip}}",
            f"1: data.on_bad_record: {kind}",
        )
        for kind, source in {
            "sql": "{kind: sql, url: 'sqlite:////a.db', table: t}",
            "bigquery": "{kind: bigquery, project: p, table: d.t}",
        }.items()
    ],
    "placeholders_are_valid": [
        (
            "data: {source: {kind: csv, path: 'a-{DAY}.csv'}}",
            "1: data.source.path: are {SPAN}, {VERSION}, {YYYY}, {MM} and {DD}",
        ),
        (
            "data:\n  source:\n    kind: csv\n    path: ['a/{SPAN}.csv', 'b/{SPAN}-{MM}.csv']",
            "4: data.source.path[1]: has both {SPAN} and a date",
        ),
        ("data: {source: {kind: csv, path: '{YYYY}-{MM}.csv'}}", "1: data.source.path: the date lacks {DD}"),
        (
            "data: {source: {kind: csv, path: 'v{VERSION}.csv'}}",
            "1: data.source.path: {VERSION} is the version of a span",
        ),
    ],
    "paths_have_the_same_placeholders": [
        (
            "data: {source: {kind: csv, path: ['a/{SPAN}.csv', b.csv]}}",
            "1: data.source.path[1]: the first path has {SPAN}",
        )
    ],
    "window_requires_spans": [
        (
            f"data: {{{SOURCE}, window: 7}}",
            "1: data.window: {SPAN}, or {YYYY}, {MM} and {DD}",
        ),
        (
            "data: {source: {kind: sql, url: 'sqlite:///a', table: a}, window: all}",
            "1: data.window: spans, and this source is sql; remove",
        ),
        (
            f"data: {{{SOURCE}, spans: 3}}",
            "1: data.spans: {SPAN}, or {YYYY}, {MM} and {DD}",
        ),
    ],
    "selected_spans_are_valid": [
        (
            "data: {source: {kind: csv, path: '{YYYY}-{MM}-{DD}.csv'}, spans: '2026-02-30'}",
            "1: data.spans: 2026-02-30 is",
        ),
        (
            "data: {source: {kind: csv, path: '{SPAN}.csv'}, spans: '2026-02-03'}",
            "1: data.spans: 2026-02-03 is a date",
        ),
        (
            "data: {source: {kind: csv, path: '{SPAN}.csv'}, spans: [3, 1]}",
            "1: data.spans: the range starts with 3, after its end, 1",
        ),
    ],
    "run_date_requires_dated_spans": [
        (
            "data: {source: {kind: csv, path: '{YYYY}-{MM}-{DD}.csv'}, run_date: '2026-02-30'}",
            "1: data.run_date: 2026-02-30 is",
        ),
        (
            "data: {source: {kind: csv, path: '{SPAN}.csv'}, run_date: '2026-02-03'}",
            "1: data.run_date: its spans by {SPAN}, so",
        ),
    ],
}
