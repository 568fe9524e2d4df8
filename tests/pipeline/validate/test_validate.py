"""What a config says of its data, and what the data is."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from messages import says
from trips_folder import CONFIG
from validated import reported

from headrace.common.names import CommandOption
from headrace.configs.loading.loader import load_with_locations
from headrace.pipeline.cli import cli
from headrace.pipeline.validate import check_data, check_machine, why_not_writable


def test_a_config_that_fits_the_data_has_no_problems() -> None:
    assert reported(CONFIG) == []


def test_columns_are_those_of_the_newest_span() -> None:
    for day, header in (("2025-12-26", "fare,tip"), ("2026-01-02", "fares,tip")):
        Path(f"{day}.csv").write_text(
            f"{header}\n" + "".join(f"{row}.5,{row % 2}\n" for row in range(40)), encoding="utf-8"
        )
    spans = CONFIG.replace("trips.csv", "'{YYYY}-{MM}-{DD}.csv'")
    (problem,) = reported(spans)
    assert says(problem, 'c.yaml:6: features.fare: "fare" …2026-01-02, …2025-12-26 has it; did you mean "fares"?')
    (problem,) = reported(spans.replace("fare:", "fairs:"))
    assert says(problem, 'c.yaml:6: features.fairs: "fairs" is not a column of the data; did you mean "fares"?')
    assert reported(spans.replace("label", "  spans: '2025-12-26'\nlabel", 1)) == []


def test_many_columns_that_become_the_same_are_one_line() -> None:
    names = [f"x{number:02}" for number in range(12)]
    rows = range(60)
    numbers = {name: [f"{row * (place + 2) % 61}.5" for row in rows] for place, name in enumerate(names)}
    columns = {**dict(list(numbers.items())[:8]), "kind": [f"c{row % 7}" for row in rows], **numbers}
    columns["y"] = [str(row % 2) for row in rows]
    lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
    Path("wide.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = "data: {source: {kind: csv, path: wide.csv}}\nlabel: {key: y, kind: auto}\nfeatures: {'*': auto}\n"
    Path("wide.yaml").write_text(config, encoding="utf-8")
    done = CliRunner().invoke(cli, ["validate", "wide.yaml"])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-7:] == [
        '"*": 13 features',
        "  x00 to x07, 8 features: {column: numeric}",
        "  kind: {column: vocabulary, values: [c0, c1, c2, c3, c4, c5, c6]}",
        *(f"  {name}: {{column: numeric}}" for name in names[8:]),
    ]


def test_spans_that_are_not_there_are_reported_at_the_path() -> None:
    (problem,) = reported(CONFIG.replace("trips.csv", "'in/{SPAN}.csv'"))
    assert problem.startswith("c.yaml:3: data.source.path: no file matches 'in/{SPAN}.csv'")
    Path("2026-01-01.csv").write_text("fare,tip\n1.5,0\n", encoding="utf-8")
    spans = CONFIG.replace("trips.csv", "'{YYYY}-{MM}-{DD}.csv'")
    (problem,) = reported(spans.replace("label", "  spans: '2026-02-01'\nlabel", 1))
    assert problem.startswith("c.yaml:3: data.source.path: there is no span 2026-02-01")


@pytest.mark.parametrize(
    ("source", "head"),
    [
        ("{kind: sql, url: 'sqlite:////gone/x.db', table: t}", "data.source: "),
        ("{kind: tfds, name: gone, data_dir: /gone}", "data.source: "),
        ("{kind: arrays, path: gone.npz}", "data.source.path: "),
        ("{kind: arrays, function: gone.arrays}", "data.source: "),
        ("{kind: images, path: gone}", "data.source.path: "),
        ("{kind: images, index: gone.csv}", "data.source: "),
    ],
)
def test_a_source_that_cannot_be_read_is_reported_at_a_setting_that_it_has(source: str, head: str) -> None:
    (problem,) = reported(CONFIG.replace("{kind: csv, path: trips.csv}", source))
    assert problem.startswith(f"c.yaml:3: {head}")
    assert "gone" in problem


def test_the_example_fits_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[3]
    monkeypatch.chdir(root)
    assert check_data(load_with_locations("configs/taxi.yaml")) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "  fare: {column: numeric}",
            "  fair: {column: numeric}",
            'c.yaml:6: features.fair: "fair" …; did you mean "fare"?',
        ),
        (
            "  fare: {column: numeric}",
            "  fare: {column: numeric}\n  p: {column: hashed, hash_buckets: 9, key: pick_up}",
            'c.yaml:7: features.p.key: "pick_up" …; did you mean "Pick Up"?',
        ),
        ("key: tip", "key: tips", 'c.yaml:4: label.key: "tips" …; did you mean "tip"?'),
        (
            "  fare: {column: numeric}",
            "  x: {column: crossed, hash_buckets: 9, keys: [hour, zone]}",
            'c.yaml:6: features.x.keys[1]: "zone" …feature; …: fare, Pick Up, hour, tip',
        ),
        (
            "  fare: {column: numeric}",
            "  hour: {column: numeric}\nevaluate:\n  slices: [hour, [hour, fares]]",
            'c.yaml:8: evaluate.slices[1][1]: "fares" …; did you mean "fare"?',
        ),
        (
            "path: trips.csv}",
            "path: trips.csv}\n  split_key: rider",
            'c.yaml:4: data.split_key: "rider" …; …: fare, Pick Up, hour, tip',
        ),
        (
            "path: trips.csv}",
            "path: trips.csv}\n  types:\n    hours: int",
            'c.yaml:5: data.types.hours: "hours" …; did you mean "hour"?',
        ),
        (
            "  fare: {column: numeric}",
            "  v: {column: vocabulary, key: hour, file: hours.txt}",
            "c.yaml:6: features.v.file: … no file hours.txt …{here}",
        ),
        (
            "path: trips.csv}",
            "path: trips.csv}\n  schema: trip.csv",
            'c.yaml:4: data.schema: … no file trip.csv …{here}…; did you mean "trips.csv"?',
        ),
        (
            "  fare: {column: numeric}",
            "  f: {column: custom, keys: [fare], function: gone.f}",
            'c.yaml:6: features.f.function: "gone.f": … no module gone …{here}',
        ),
        (
            "  fare: {column: numeric}",
            "  fare: {column: numeric}\nmodel: {kind: headrace.configs.loading.loader.laod}",
            'c.yaml:7: model.kind: "headrace.configs.loading.loader.laod": {loader} … laod; did you mean "load"?',
        ),
        (
            "  fare: {column: numeric}",
            "  fare: {column: image, height: 8, width: 8}\nmodel: {kind: image, backbone: {saved_model: net}}",
            "c.yaml:7: model.backbone.saved_model: net …saved_model.pb…{here}",
        ),
        (
            "  fare: {column: numeric}",
            "  fare: {column: text_embedding, key: Pick Up, saved_model: net}",
            "c.yaml:6: features.fare.saved_model: net …saved_model.pb…{here}",
        ),
    ],
)
def test_what_does_not_exist_is_reported_at_its_line(here: Path, old: str, new: str, message: str) -> None:
    loader = sys.modules["headrace.configs.loading.loader"].__file__
    (problem,) = reported(CONFIG.replace(old, new))
    assert says(problem, message.replace("{here}", str(here)).replace("{loader}", str(loader)))


def test_a_schema_without_the_bits_of_a_float64_column_is_reported_at_its_line(here: Path) -> None:
    text = CONFIG.replace("label:", "  types: {fare: float64}\n  schema: schema.pbtxt\nlabel:", 1)
    lines = ['feature { name: "fare" type: FLOAT }', 'feature { name: "tip" type: INT }']
    (here / "schema.pbtxt").write_text("\n".join(lines), encoding="utf-8")
    (problem,) = reported(text)
    assert problem.startswith("c.yaml:5: data.schema: ")
    assert 'feature { name: "fare:float64" type: INT }' in problem
    lines.append('feature { name: "fare:float64" type: INT }')
    (here / "schema.pbtxt").write_text("\n".join(lines), encoding="utf-8")
    assert reported(text) == []
    (here / "schema.pbtxt").write_text("feature {", encoding="utf-8")
    (problem,) = reported(text)
    assert "schema.pbtxt: is not a schema" in problem


@pytest.mark.parametrize(("delimiter", "spelled"), [(";", '";"'), ("\t", r'"\t"'), ("|", '"|"')])
def test_a_wrong_delimiter_is_reported_once(here: Path, delimiter: str, spelled: str) -> None:
    (here / "trips.csv").write_text((here / "trips.csv").read_text(encoding="utf-8").replace(",", delimiter))
    (message,) = reported(CONFIG)
    assert message.startswith("c.yaml:3: data.source.delimiter: the header is a single column, ")
    assert message.endswith(f"; set data.source.delimiter: {spelled}")


def test_a_comma_in_the_header_is_reported_where_another_delimiter_is_set() -> None:
    (message,) = reported(CONFIG.replace("path: trips.csv", "path: trips.csv, delimiter: ';'"))
    assert message.endswith('single column, "fare,Pick Up,hour,tip"; set data.source.delimiter: ","')


def test_a_single_column_with_a_plain_name_is_reported_by_the_names_that_it_lacks(here: Path) -> None:
    (here / "trips.csv").write_text("fare\n" + "".join(f"{row}.5\n" for row in range(40)))
    (problem,) = reported(CONFIG)
    assert problem.startswith('c.yaml:4: label.key: "tip" ')
    assert problem.endswith("; the columns are: fare")


def test_the_columns_are_listed_once_however_many_names_are_wrong() -> None:
    (problem,) = reported(CONFIG.replace("fare: {", "qqq: {column: numeric}\n  zzz: {"))
    assert says(problem, 'c.yaml:6: features.qqq: "qqq", "zzz" are …: fare, Pick Up, hour, tip (also in line 7)')
    assert problem.count("Pick Up") == 1
    label, features = reported(CONFIG.replace("key: tip", "key: qqq").replace("fare: {", "zzz: {"))
    assert label.startswith('c.yaml:4: label.key: "qqq" is not a column ')
    assert label.endswith(": fare, Pick Up, hour, tip")
    assert says(features, 'c.yaml:6: features.zzz: "zzz" is not a column ')
    assert "Pick Up" not in features
    near = "hours: {column: numeric}\n  zzz: {column: numeric}\n  fair: {"
    (problem,) = reported(CONFIG.replace("fare: {", near))
    assert '"hours" (did you mean "hour"?), "zzz", "fair" (did you mean "fare"?) are ' in problem


@pytest.mark.parametrize(
    ("path", "hint"),
    [("trip.csv", '{here}; did you mean "trips.csv"?'), ("zz/*.csv", "{here}; it contains: c.yaml, trips.csv")],
)
def test_a_path_without_files_is_reported_with_what_is_there(here: Path, path: str, hint: str) -> None:
    (here / ".trip.work-1").mkdir()
    (problem,) = reported(CONFIG.replace("path: trips.csv", f"path: '{path}'"))
    assert says(problem, f"…no file matches '{path}'\n…{hint}".format(here=here))
    assert problem.endswith(hint.format(here=here))


def test_a_folder_is_not_a_vocabulary_file(here: Path) -> None:
    (here / "words").mkdir()
    (problem,) = reported(CONFIG.replace("{column: numeric}", "{column: vocabulary, key: hour, file: words}"))
    assert problem.startswith("c.yaml:6: features.fare.file: ")
    assert "words" in problem


def test_all_problems_are_reported_at_once_in_file_order() -> None:
    text = CONFIG.replace("key: tip", "key: tap").replace("fare:", "fair:") + "evaluate: {slices: [houre]}\n"
    assert [problem.partition(": ")[0] for problem in reported(text)] == ["c.yaml:4", "c.yaml:6", "c.yaml:7"]


def test_data_that_cannot_be_read_is_reported_with_the_other_problems() -> None:
    text = CONFIG.replace("trips.csv", "gone/*.csv") + "model: {kind: gone.build}\n"
    first, *_, last = reported(text)
    assert first.startswith("c.yaml:3: data.source.path: no file matches 'gone/*.csv'")
    assert last.startswith('c.yaml:7: model.kind: "gone.build": ')
    assert "no module gone " in last


def test_a_set_value_is_reported_as_the_option() -> None:
    Path("c.yaml").write_text(CONFIG, encoding="utf-8")
    loaded = load_with_locations("c.yaml", overrides=[CommandOption("label.key=tap")])
    assert str(check_data(loaded)[0]).startswith("--set label.key=tap: label.key: ")


@pytest.mark.parametrize(
    ("setting", "line"),
    [("deploy: {push: 'made/{name}'}", "c.yaml:7: deploy.push: made/trips is not writable: "), ("", None)],
)
def test_a_folder_that_nothing_can_be_pushed_to_is_reported_before_training(
    here: Path, setting: str, line: str | None
) -> None:
    Path("c.yaml").write_text(CONFIG + setting, encoding="utf-8")
    assert check_machine(load_with_locations("c.yaml")) == []
    (here / "made").write_text("a file")
    assert [str(problem) for problem in check_machine(load_with_locations("c.yaml"))] == (
        [f"{line}{here}/made: Not a directory"] if line else []
    )
    assert sorted(path.name for path in here.iterdir()) == ["c.yaml", "made", "trips.csv"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")
def test_a_file_system_that_takes_no_files_is_reported_whatever_the_permissions() -> None:
    assert str(why_not_writable(Path("/proc/self/serving"))).startswith("/proc/self: ")


def test_names_given_in_the_config_stand_for_a_missing_header() -> None:
    text = CONFIG.replace("path: trips.csv", "path: trips.csv, column_names: [fare, place, hour, tip]")
    label, fare = reported(text)  # there is a header
    assert "the data has tip, " in label
    assert "trips.csv:1: column 'fare': 'fare' is not a float" in fare
    Path("trips.csv").write_text(
        "".join(Path("trips.csv").read_text(encoding="utf-8").splitlines(keepends=True)[1:]), encoding="utf-8"
    )
    assert reported(text) == []


def test_the_first_rows_of_unsigned_integers_are_looked_at_unless_later_ones_are_wider() -> None:
    numbers = np.arange(20_000, dtype=np.uint64)
    wide = np.where(numbers == 15_000, np.uint64(2**63), numbers)
    np.savez("u.npz", fare=numbers, wide=wide, tip=numbers // 3 % 2)
    text = CONFIG.replace("{kind: csv, path: trips.csv}", "{kind: arrays, path: u.npz}")
    Path("c.yaml").write_text(text + "  wide: {column: vocabulary}\n", encoding="utf-8")
    done = CliRunner().invoke(cli, ["validate", "c.yaml"])
    assert done.exit_code == 0, done.output
    assert "rows: looked at the first 10,000 rows;" in done.stdout
    (problem,) = reported(text.replace("kind: binary", "kind: binary, classes: [2, 3]"))
    assert problem.startswith("c.yaml:4: label.classes: the data has 0, 1, ")
