"""Configs that break the rules of `deploy:`."""

from __future__ import annotations

from broken_rules.sections import RUN_FN, Broken, features

WORDS = features(words="text")
BROKEN: Broken = {
    "lite_models_are_ours": [(f"deploy: {{lite: {{}}}}\n{RUN_FN}", "1: deploy.lite: run_fn")],
    "lite_models_have_no_gru": [
        (f"deploy: {{lite: {{}}}}\nmodel: {{kind: text}}\n{WORDS}", "1: deploy.lite: `model.encoder: recurrent`"),
        (
            f"deploy: {{lite: {{}}}}\nmodel: {{kind: text, encoder: attention}}\n{WORDS}",
            "1: deploy.lite: use `pooling`",
        ),
    ],
    "agreement_is_of_classes": [
        (
            "deploy: {lite: {min_agreement: 0.9}}\nlabel: {key: tip, kind: regression}",
            "1: deploy.lite.min_agreement: use `max_difference`",
        ),
    ],
    "median_latency_has_a_limit_of_its_own": [
        (
            "deploy: {canary: {latency_p50_ms: 20.5, latency_p99_ms: 20}}",
            "1: deploy.canary.latency_p50_ms: 20.5 ms is above `latency_p99_ms` (20 ms)",
        ),
        (
            "deploy: {canary: {server: {rest: 'http://s:1', folder: s, latency_p50_ms: 3, latency_p99_ms: 2}}}",
            "1: deploy.canary.server.latency_p50_ms: `latency_p99_ms` (2 ms)",
        ),
    ],
}
