"""Configs that break the rules of `label.kind: text` and `model.kind: encoder_decoder`."""

from __future__ import annotations

from broken_rules.sections import Broken, features

LABEL = "label: {key: answer, kind: text}"
WORDS = features(said="text")
WRITES = f"model: {{kind: encoder_decoder}}\n{LABEL}\n{WORDS}"
BROKEN: Broken = {
    "texts_are_written_by_their_model": [
        (f"{LABEL}\n{WORDS}", "1: model.kind: requires `kind: encoder_decoder`; found table"),
        (
            f"model: {{kind: encoder_decoder}}\nlabel: {{key: tip, kind: binary}}\n{WORDS}",
            "1: model.kind: this label is binary; set `label.kind: text`",
        ),
    ],
    "encoder_has_a_source": [
        (f"model: {{kind: encoder_decoder}}\n{LABEL}", "1: model.kind: with `column: text`, the source; add one"),
        (
            f"model: {{kind: encoder_decoder, text: sad}}\n{LABEL}\n{WORDS}",
            '1: model.text: did you mean "said"?',
        ),
        (
            f"model: {{kind: encoder_decoder}}\n{LABEL}\n{features(said='text', title='text')}",
            "1: model.kind: set `text:` to said or title",
        ),
    ],
    "decoder_has_no_dense_layers": [
        (
            f"model: {{kind: encoder_decoder, hidden: [8]}}\n{LABEL}\n{WORDS}",
            "1: model.hidden: remove it, and set `units`",
        ),
        (
            f"model: {{kind: encoder_decoder, activation: tanh}}\n{LABEL}\n{WORDS}",
            "1: model.activation: remove it",
        ),
    ],
    "decoder_trains_plainly": [
        (f"{WRITES}\ntrain: {{strategy: multi_worker}}", "5: train.strategy: use auto, cpu or one_gpu"),
        (f"{WRITES}\ntrain: {{strategy: mirrored}}", "5: train.strategy: on one device, not with `mirrored`"),
        (f"{WRITES}\ntrain: {{strategy: tpu}}", "5: train.strategy: on one device, not with `tpu`"),
        (
            f"{WRITES}\ntrain: {{precision: mixed_bfloat16}}",
            "5: train.precision: because its rounding can change which word",
        ),
        (
            f"model: {{kind: encoder_decoder}}\n{LABEL}\n{features(said='text, max_tokens: 6, padded: true')}\n"
            "train: {jit: 'on'}",
            "5: train.jit: use `auto` or `off`",
        ),
        (f"{WRITES}\ntrain: {{warm_start: true}}", "5: train.warm_start: remove it"),
    ],
    "written_texts_are_not_converted": [(f"{WRITES}\ndeploy: {{lite: {{}}}}", "5: deploy.lite: remove this")],
}
