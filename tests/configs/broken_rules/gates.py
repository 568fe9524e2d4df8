"""Configs that break the rules of `gates:`."""

from __future__ import annotations

from broken_rules.sections import Broken

DATED = "data: {source: {kind: csv, path: '{YYYY}-{MM}-{DD}.csv'}, window: 3}"
ONE_SPAN = "data: {source: {kind: csv, path: '{SPAN}.csv'}}"


def log(path: str, more: str = "") -> str:
    return f"gates: {{skew: {{source: {{kind: csv, path: {path}}}{more}}}}}"


BROKEN: Broken = {
    "earlier_spans_are_read": [
        (f"gates: {{rows: {{max_decrease: 0.5}}}}\n{ONE_SPAN}", "1: gates.rows.max_decrease: increase the window"),
        (f"gates: {{rows: {{max_increase: 2.0}}}}\n{ONE_SPAN}", "1: gates.rows.max_increase: increase the window"),
        (f"gates: {{drift: {{earlier_spans: {{}}}}}}\n{ONE_SPAN}", "1: gates.drift.earlier_spans: or use `blessed`"),
        ("gates: {rows: {max_missing_spans: 0}}", "1: gates.rows.max_missing_spans: requires data in spans"),
        ("gates: {drift: {earlier_spans: {}}}", "1: gates.drift.earlier_spans: requires data in spans"),
    ],
    "freshness_has_dates": [
        (f"gates: {{freshness: {{max_days: 1}}}}\n{ONE_SPAN}", "1: gates.freshness: requires a date"),
        ("gates: {freshness: {max_days: 1}}", "1: gates.freshness: name a `column`"),
    ],
    "gates_are_of_features": [
        (
            "gates: {drift: {blessed: {columns: {fair: {missing: 0.1}}}}}",
            '1: gates.drift.blessed.columns.fair: did you mean "fare"?',
        ),
        (
            f"gates: {{drift: {{earlier_spans: {{columns: {{other: {{}}}}}}}}}}\n{DATED}",
            '1: gates.drift.earlier_spans.columns.other: no feature reads a column "other"',
        ),
        (
            "gates: {skew: {source: {kind: jsonl, path: log.jsonl}, columns: {fair: {missing: 0.1}}}}",
            '1: gates.skew.columns.fair: did you mean "fare"?',
        ),
    ],
    "log_has_spans_in_its_paths": [
        (log("'{SPAN]/log.csv'"), "1: gates.skew.source.path: is not a placeholder"),
        (log("['{SPAN}.csv', 'log.csv']"), "1: gates.skew.source.path: different placeholders"),
        (log("log.csv", ", window: 2"), "1: gates.skew.window: no path of gates.skew.source contains {SPAN}"),
        (log("'{SPAN}.csv'", ", delay: 1"), "1: gates.skew.delay: no path of gates.skew.source contains {YYYY}"),
    ],
    "log_has_no_splits": [
        (log("{train: a.csv, eval: b.csv}"), "1: gates.skew.source.path: has no splits"),
    ],
    "password_of_log_is_in_a_variable": [
        (
            "gates: {skew: {source: {kind: sql, url: 'sqlite:///a', query: select 1, password_env: 'hunter 2'}}}",
            "1: gates.skew.source.password_env: put the password into one",
        ),
    ],
}
