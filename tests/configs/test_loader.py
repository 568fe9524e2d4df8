"""Every mistake in a config is reported at once, at its line, in plain words, with what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from messages import says

from headrace.common.errors import ConfigError
from headrace.common.names import join_or
from headrace.configs.loading.loader import load, load_with_locations
from headrace.configs.schema.features import FEATURES
from headrace.configs.schema.models import MODELS
from headrace.configs.schema.sources import SOURCES

SECTIONS = {
    "pipeline": "pipeline: {name: taxi}",
    "data": "data: {source: {kind: csv, path: a.csv}}",
    "label": "label: {key: tip, kind: binary}",
    "features": "features: {fare: {column: numeric}}",
}


def reported(folder: Path, text: str, overrides: tuple[str, ...] = ()) -> list[str]:
    """The mistakes of a config whose first lines are `text`, completed by the sections that `text` leaves out."""
    file = folder / "c.yaml"
    rest = [section for name, section in SECTIONS.items() if f"{name}:" not in text]
    file.write_text("\n".join([text, *rest]) + "\n")
    with pytest.raises(ConfigError) as caught:
        load(file, overrides=overrides)
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.problems]


MINIMAL = "pipeline: {name: t}\ndata: {source: {kind: csv, path: x}}\nlabel: {key: tip, kind: binary}\n"
WRITES = "model: {kind: encoder_decoder}\nfeatures: {said: {column: text}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train: {epochs: five}", 'train.epochs: "five"; allowed'),
        ("train: {epochs: 0}", "train.epochs: found the number 0; allowed"),
        (
            "train: {epochs: 1e1}",
            "train.epochs: did you mean 10?",
        ),
        (
            "train: {epochs: '5'}",
            "train.epochs: remove the quotes",
        ),
        (
            "train: {epochs: 1_000}",
            "train.epochs: did you mean 1000?",
        ),
        (
            "train: {epochs: 007}",
            "train.epochs: did you mean 7?",
        ),
        (
            "train: {epochs: }",
            "train.epochs: remove the line to",
        ),
        (
            "train: {learning_rate: .inf}",
            "train.learning_rate: finite number",
        ),
        (
            "train: {seed: 99999999999999999999}",
            "train.seed: the number 99999999999999999999 does not fit in 64 bits",
        ),
        (
            "train: {seed: 9223372036854775808}",  # the first that int64 does not hold
            "train.seed: the number 9223372036854775808 does not fit in 64 bits",
        ),
        ("train: {strategy: gpu}", 'train.strategy: did you mean "one_gpu"?'),
        ("train: {epoch: 3}", 'train.epoch: did you mean "epochs"?'),
        ("train: {batchSize: 3}", 'train.batchSize: did you mean "batch_size"?'),
        (
            "train: epochs:5",
            'train: "epochs:5"; allowed: settings (epochs, steps_per_epoch, ',
        ),
        (
            "train: [1]",
            "train: found a list of 1; allowed: settings (epochs, ",
        ),
        ("trian: {}", 'trian: did you mean "train"?'),
        ("epochs: 5", 'epochs: did you mean "train.epochs"?'),
        (
            "train:\n  input:",
            "train.input: settings (cache, shuffle, ",
        ),
        (
            "train: {early_stopping: false}",
            "train.early_stopping: found false; allowed: settings (patience, min_delta), or null",
        ),
        (
            "pipeline: {name: 2024}",
            "pipeline.name: found the number 2024; allowed: lower-case letters, digits and",
        ),
        (
            "train: {input: {threads: 0}}",
            "train.input.threads: found the number 0; allowed: auto, or",
        ),
        (
            "train: {profile: {batches: 50}}",
            "train.profile.batches: found the number 50; allowed",
        ),
        (
            'train: {input: {service: "localhost:50"}}',
            'train.input.service: "localhost:50"; allowed: an address such as grpc://127.0.0.1:5050',
        ),
        (
            "label: {kind: bin, key: tip}",
            'label.kind: did you mean "binary"?',
        ),
        ("label: {kind: binary}", "label.key: (The data column)"),
        (
            "label: {kye: tip, kind: binary}",
            'label.kye: did you mean "key"?',
        ),
        (
            "label: {key: tip, kind: multiclass}",
            "label: `classes`: a list of its values",
        ),
        (
            "label: {key: tip, kind: multilabel}",
            "label: a multilabel label requires `classes`",
        ),
        ("label: {key: tip, kind: multilabel, classes: 1001}", "label: at most 1,000 classes; found 1,001"),
        (
            "label: {key: tip, kind: multilabel, classes: [a, 'b|c'], separator: '|'}",
            "label: the class 'b|c' contains the `separator`",
        ),
        (
            "label: {key: tip, kind: multiclass, classes: 3, separator: '|'}",
            "label: …`separator`…multiclass…`kind: multilabel`",
        ),
        ("label: {key: tip, kind: text, weight: w}", "label: `weight` is not used by a text label"),
        ("label: {key: tip, kind: text, text: fare}", "label: `text` is not used by a text label; name the source"),
        ("label: {key: tip, kind: text, classes: 3}", "label: `classes` is not used by a text label"),
        ("label: {key: tip, kind: binary, words: {}}", "label: `words` is not used by a binary label"),
        (
            f"{WRITES}\nlabel: {{key: tip, kind: text, words: {{values: [a], top_k: 3}}}}",
            "label.words: `top_k` and `min_frequency` are for a learned vocabulary",
        ),
        (f"{WRITES}\nlabel: {{key: tip, kind: text, words: {{values: [a, a]}}}}", "label.words: contains a word twice"),
        (
            f"{WRITES}\nlabel: {{key: tip, kind: text, words: {{values: [a, '']}}}}",
            "label.words: contains an empty word",
        ),
        (
            f"{WRITES}\nlabel: {{key: tip, kind: text, words: {{split: words, values: [New York]}}}}",
            "label.words: …'New York', …white space",
        ),
        (
            f"{WRITES}\nlabel: {{key: tip, kind: text, words: {{values: [ants, Äpfel]}}}}",
            "label.words: write 'äpfel', or set `lowercase: false`",
        ),
        (
            "features: {said: {column: text, embedding: /models/swivel}}",
            'features.said.embedding: use {column: text_embedding, saved_model: "/models/swivel"}',
        ),
        ("features: {said: {column: text, values: ['']}}", 'features.said: contains an empty word, ""'),
        ("features: {said: {column: text, values: ['a b']}}", "features.said: …'a b', …white space"),
        (
            "features: {said: {column: text, split: words, values: [can't]}}",
            "features.said: …\"can't\", …`split: words`…write 'cant'",
        ),
        (
            "features: {said: {column: text, split: marks, values: ['!', a-b]}}",
            "features.said: …'a-b', …`split: marks` '-'",
        ),
        ("features: {kind: {column: vocabulary, values: ['', a]}}", 'features.kind: "", and an empty text is missing'),
        (
            "features: {kind: {column: vocabulary, multivalued: true, separator: '|', values: [a|b]}}",
            "features.kind: 'a|b', which `separator` divides; list its parts",
        ),
        (
            "features: {kind: {column: vocabulary, multivalued: true, separator: '|', values: [' a']}}",
            "features.kind: …(`separator`); write 'a'",
        ),
        ("features: {said: {column: text, values: [USA]}}", "features.said: write 'usa', or set `lowercase: false`"),
        (
            "label: {key: tip, kind: binary, missing: none}",
            "label: …binary…use refuse or drop",
        ),
        (
            "data: {source: {path: x}}",
            f"data.source.kind: missing; allowed: {join_or(SOURCES.kinds)}",
        ),
        (
            "data: {source: {kind: csv, path: []}}",
            "data.source.path: found an empty list; allowed",
        ),
        (
            "data: {source: {kind: csv, path: x, delimiter: \\t}}",
            'data.source.delimiter: …"\\\\t"; …one character; …double quotes: "\\t"',
        ),
        (
            "data: {source: {kind: csv, path: x, quote: ','}}",
            "data.source: delimiter and quote are both ','",
        ),
        (
            "data: {source: {kind: csv, path: x}, on_anomaly: no}",
            'data.on_anomaly: "no"; allowed: stop or warn',
        ),
        (
            "features: {fare: {column: numric}}",
            'features.fare.column: did you mean "numeric"?',
        ),
        (
            "features: {fare: {hash_buckets: 9, num_buckets: 1}}",
            f"features.fare.column: missing; allowed: {join_or(FEATURES.kinds)}",
        ),
        (
            "features: {fare: {boundaries: [1]}}",
            'features.fare.column: did you mean "column: bucketized"?',
        ),
        (
            "features: {fare: {kind: numeric}}",
            'features.fare.column: did you mean "column: numeric" instead of "kind: numeric"?',
        ),
        (
            "features: {fare: numeric}",
            "features.fare: did you mean {column: numeric}?",
        ),
        (
            "features: {fare: {column: numeric, normalise: log}}",
            'features.fare.normalise: did you mean "normalize"?',
        ),
        (
            "features: {fare: {column: numeric, buckets: 3}}",
            "features.fare.buckets: `buckets` is for: bucketized",
        ),
        (
            "features: {fare: {column: numeric, missing: men}}",
            'features.fare.missing: did you mean "mean"?',
        ),
        (
            "features: {numeric: {column: identity, num_buckets: 3, deep: yes}}",
            "features.numeric.deep: did you mean true?",
        ),
        (
            "features: {}",
            "features: found an empty mapping",
        ),
        (
            "data: {source: {kind: csv, path: x, decode: true}}",
            "data.source.decode: `decode` is for: images",
        ),
        (
            "model: {kind: dnn, options: {a: 1}}",
            "model.options: …`options`…your own builder",
        ),
        (
            "model: {hiden: [3]}",
            'model.hiden: did you mean "hidden"?',
        ),
        (
            "model: {kind: my.build, optionz: {}}",
            'model.optionz: did you mean "options"?',
        ),
        (
            "features: {x: {column: image, height: 8, width: 8}}\nmodel: {kind: image, augment: {flip: sideways}}",
            'model.augment.flip: …"sideways"; allowed: horizontal, vertical',
        ),
        (
            "model: {kind: image, backbone: {saved_model: net}, filters: [8]}",
            "model: the convolutions; remove `filters`",
        ),
        (
            "model: {kind: [dnn]}",
            f"model.kind: found a list of 1; allowed: {next(iter(MODELS.kinds))}, ",
        ),
        ("model: {kind: DNN}", 'model.kind: did you mean "dnn"?'),
        (
            "model: {kind: my-own.build}",
            'model.kind: "my-own.build"; allowed: a dotted path',
        ),
        (
            "model: dnn",
            "model: did you mean {kind: dnn}?",
        ),
        (
            "model:",
            f"model: settings with kind: {next(iter(MODELS.kinds))}, ",
        ),
        (
            "model: {hidden: 128}",
            "model.hidden: did you mean [128]?",
        ),
        (
            "model: {hidden: [128, -1]}",
            "model.hidden[1]: found the number -1; allowed",
        ),
        ("model: {dropout: 1.0}", "model.dropout: found the number 1.0; allowed"),
        (
            "evaluate: {slices: [a, [b, 3]]}",
            "evaluate.slices[1][1]: found the number 3; allowed",
        ),
        ("evaluate: {thresholds: {auc: {min: 0.9, max: 0.8}}}", "evaluate.thresholds.auc: min: 0.9 is"),
        (
            "evaluate: {thresholds: {auc: 0.8}}",
            "evaluate.thresholds.auc: did you mean {min: 0.8}?",
        ),
        ("deploy: {push: ''}", 'deploy.push: ""; allowed'),
    ],
)
def test_one_mistake_is_reported_in_plain_words(tmp_path: Path, text: str, message: str) -> None:
    line = text.count("\n") + 1
    setting, key_word = message.split(": ", 1)
    (problem,) = reported(tmp_path, text)
    assert says(problem, f"c.yaml:{line}: {setting}: …{key_word}")


def test_all_mistakes_are_reported_at_once_in_file_order(tmp_path: Path) -> None:
    text = """\
trian: {}
label:
  kind: bin
  key: tip
train:
  epochs: 3
  epochs: x
features:
  fare:
    column: numric
  tip: {column: numeric}
evaluate: {metrics: [auc], split: valid}
"""
    assert [line.split(": ")[0] + " " + line.split(": ")[1] for line in reported(tmp_path, text)] == [
        "c.yaml:1 trian",
        "c.yaml:3 label.kind",
        "c.yaml:7 train.epochs",
        "c.yaml:7 train.epochs",
        "c.yaml:10 features.fare.column",
        "c.yaml:11 features.tip",
        "c.yaml:12 evaluate.split",
    ]


def test_a_list_whose_only_item_is_wrong_is_not_reported_as_too_short(tmp_path: Path) -> None:
    (problem,) = reported(tmp_path, "features: {i: {column: bucketized, boundaries: [a]}}")
    assert problem.startswith("c.yaml:1: features.i.boundaries[0]: found the string")
    (problem,) = reported(tmp_path, "features: {i: {column: bucketized, boundaries: []}}")
    assert problem.startswith("c.yaml:1: features.i.boundaries: found an empty list")


def test_a_value_of_several_lines_is_reported_at_the_line_of_the_item(tmp_path: Path) -> None:
    assert reported(tmp_path, "model:\n  hidden:\n    - 1\n    - x")[0].startswith("c.yaml:4: model.hidden[1]: ")


def test_the_example_loads_with_the_place_of_each_setting() -> None:
    loaded = load_with_locations("configs/taxi.yaml")
    lines = Path("configs/taxi.yaml").read_text(encoding="utf-8").splitlines()
    assert loaded.config.label.key == "big_tipper"
    for where, text in [
        (("label", "key"), "label: {key"),
        (("features", "company"), "  company:"),
        (("features", "pickup", "keys", 1), "  pickup:"),
        (("evaluate", "thresholds", "auc", "min"), "    auc:"),
        (("train", "seed"), "train:"),
    ]:
        line = next(number for number, line in enumerate(lines, 1) if line.startswith(text))
        assert loaded.location(where) == f"configs/taxi.yaml:{line}"


def test_a_missing_file_names_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError, match=r'^configs/taxy.yaml: no such file; did you mean "taxi.yaml"\?$'):
        load("configs/taxy.yaml")


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"no such file.*{tmp_path}/gone$"):
        load(tmp_path / "gone" / "c.yaml")


def test_a_folder_names_the_configs_in_it() -> None:
    with pytest.raises(ConfigError, match=r"^configs: .*folder.*taxi.yaml"):
        load("configs")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ":1: the file is empty"),
        (b"# only a comment\n", ":1: the file is empty"),
        (b"\n- a\n", ":2: found a list of 1"),
        (b"label:x\n", "is the space after a colon missing?"),
        (b"a: 1\nb: \xe9\n", ":2:4: the byte 0xE9 is not UTF-8"),
        ("a: 1".encode("utf-16"), ":1:1: the file is UTF-16; save it as UTF-8"),
        (b"a: 1\nb: x\x07\n", ":2:5: the character U+0007"),
    ],
)
def test_what_is_not_a_config_at_all_is_reported_with_its_place(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert len(caught.value.problems) == 1
    assert message in str(caught.value)


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(SECTIONS.values()).encode())
    assert load(file).label.key == "tip"


@pytest.mark.parametrize("features", ["", "features: {}\n"])
def test_a_config_without_features_is_told_what_to_write(features: str, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(MINIMAL + features)
    with pytest.raises(
        ConfigError, match=r"features: .*(non-empty mapping|at least one name).* column: numeric, "
    ) as caught:
        load(tmp_path / "t.yaml")
    assert "required: mapping" not in str(caught.value)
