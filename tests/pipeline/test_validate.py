"""The data, the files and the functions that a config names."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import ConfigError, DataError
from headrace.common.names import CommandOption
from headrace.components.example_gen.ingest import ingest
from headrace.components.example_gen.sources import serial_map
from headrace.components.example_gen.spans.find import find_spans
from headrace.configs.loading.loader import load_with_locations
from headrace.pipeline.code.modules import why_not_importable
from headrace.pipeline.validate import MAX_SUGGESTIONS, check_data, check_machine, why_not_writable
from headrace.pipeline.verbs.options import load

CONFIG = """\
pipeline: {name: trips}
data:
  source: {kind: csv, path: trips.csv}
label: {key: tip, kind: binary}
features:
  fare: {column: numeric}
"""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "source", "kind", "fare", "column", "keys"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trips.csv").write_text("fare,Pick Up,hour,tip\n1.5,x,3,0\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reported(text: str) -> list[str]:
    Path("c.yaml").write_text(text, encoding="utf-8")
    return [str(problem) for problem in check_data(load_with_locations("c.yaml"))]


def test_a_config_that_fits_the_data_has_no_problems() -> None:
    assert reported(CONFIG) == []


def test_columns_are_those_of_the_newest_span() -> None:
    for day, header in (("2026-01-01", "fare,tip"), ("2026-01-02", "fares,tip")):
        Path(f"{day}.csv").write_text(f"{header}\n1.5,0\n", encoding="utf-8")
    spans = CONFIG.replace("trips.csv", "'{YYYY}-{MM}-{DD}.csv'")
    (problem,) = reported(spans)
    assert problem.startswith('c.yaml:6: features.fare: "fare" ')
    assert problem.endswith('; did you mean "fares"?')
    assert reported(spans.replace("label", "  spans: '2026-01-01'\nlabel", 1)) == []


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
    root = Path(__file__).parents[2]
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
            'c.yaml:6: features.x.keys[1]: "zone" …feature; the columns are: fare, Pick Up, hour, tip',
        ),
        (
            "  fare: {column: numeric}",
            "  hour: {column: numeric}\nevaluate:\n  slices: [hour, [hour, fares]]",
            'c.yaml:8: evaluate.slices[1][1]: "fares" …; did you mean "fare"?',
        ),
        (
            "path: trips.csv}",
            "path: trips.csv}\n  split_key: rider",
            'c.yaml:4: data.split_key: "rider" …; the columns are: fare, Pick Up, hour, tip',
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
    ],
)
def test_what_does_not_exist_is_reported_at_its_line(here: Path, old: str, new: str, message: str) -> None:
    loader = sys.modules["headrace.configs.loading.loader"].__file__
    (problem,) = reported(CONFIG.replace(old, new))
    place, *words = message.replace("{here}", str(here)).replace("{loader}", str(loader)).split("…")
    assert problem.startswith(place)
    assert all(word in problem for word in words)


@pytest.mark.parametrize(("delimiter", "spelled"), [(";", '";"'), ("\t", r'"\t"'), ("|", '"|"')])
def test_a_wrong_delimiter_is_reported_once(here: Path, delimiter: str, spelled: str) -> None:
    header = "fare,Pick Up,hour,tip".replace(",", delimiter)
    (here / "trips.csv").write_text(f"{header}\n" + "1.5,x,3,0\n".replace(",", delimiter))
    (message,) = reported(CONFIG)
    assert message.startswith("c.yaml:3: data.source.delimiter: the header is a single column, ")
    assert message.endswith(f"; set data.source.delimiter: {spelled}")


def test_a_comma_in_the_header_is_reported_where_another_delimiter_is_set() -> None:
    (message,) = reported(CONFIG.replace("path: trips.csv", "path: trips.csv, delimiter: ';'"))
    assert message.endswith('single column, "fare,Pick Up,hour,tip"; set data.source.delimiter: ","')


def test_a_single_column_with_a_plain_name_is_reported_by_the_names_that_it_lacks(here: Path) -> None:
    (here / "trips.csv").write_text("fare\n1.5\n")
    (problem,) = reported(CONFIG)
    assert problem.startswith('c.yaml:4: label.key: "tip" ')
    assert problem.endswith("; the columns are: fare")


def test_the_columns_are_listed_once_however_many_names_are_wrong() -> None:
    first, second = reported(CONFIG.replace("fare: {", "qqq: {column: numeric}\n  zzz: {"))
    assert first.startswith('c.yaml:6: features.qqq: "qqq" ')
    assert first.endswith("; the columns are: fare, Pick Up, hour, tip")
    assert second.startswith('c.yaml:7: features.zzz: "zzz" ')
    assert "the columns are" not in second


@pytest.mark.parametrize(
    ("path", "hint"),
    [("trip.csv", '{here}; did you mean "trips.csv"?'), ("zz/*.csv", "{here}; it contains: c.yaml, trips.csv")],
)
def test_a_path_without_files_is_reported_with_what_is_there(here: Path, path: str, hint: str) -> None:
    (problem,) = reported(CONFIG.replace("path: trips.csv", f"path: '{path}'"))
    assert problem.endswith(f"no file matches '{path}'\n  The nearest folder that exists is {hint}".format(here=here))


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
    (problem,) = reported(text)
    assert "trips.csv:1: column 'fare': 'fare' is not a float" in problem  # there is a header
    Path("trips.csv").write_text("1.5,x,3,0\n", encoding="utf-8")
    assert reported(text) == []


MODULE = """
raise SystemExit("this module must not run")
def speed(x): ...
class Model: ...
if True:
    from os import path as where
for ratio in (1, 2):
    double = ratio
try:
    import missing
except ImportError:
    missing = None
"""


def test_names_are_found_without_running_the_module(here: Path) -> None:
    (here / "mine").mkdir()
    (here / "mine" / "features.py").write_text(MODULE)
    for name in ("speed", "Model", "where", "double", "missing"):
        assert why_not_importable(f"mine.features.{name}") is None
    sped = str(why_not_importable("mine.features.sped"))
    assert sped.startswith(f'"mine.features.sped": {here}/mine/features.py ')
    assert sped.endswith('; did you mean "speed"?')
    feature = str(why_not_importable("mine.feature.speed"))
    assert feature.startswith('"mine.feature.speed": ')
    assert feature.endswith('no module mine.feature in the package mine; did you mean "features"?')
    folder = str(why_not_importable("mine.features"))
    assert folder.startswith('"mine.features": mine is a folder')
    assert folder.endswith("; it holds: features")


def test_a_module_that_an_installed_one_hides_is_reported_as_hidden(here: Path) -> None:
    (here / "queue.py").write_text("def build(): ...\n")
    (here / "headrace").mkdir()
    (here / "headrace" / "mine.py").write_text("def build(): ...\n")
    queue = str(why_not_importable("queue.build"))
    assert "queue.py does not define build; " in queue
    assert f"; it shadows {here}/queue.py, " in queue
    module = str(why_not_importable("headrace.mine.build"))
    assert "no module headrace.mine in the package headrace; " in module
    assert f"; it shadows {here}/headrace, " in module
    assert why_not_importable("queue.Queue") is None


def test_pythonpath_comes_before_the_current_directory(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "elsewhere").mkdir()
    (here / "elsewhere" / "twice.py").write_text("def there(): ...\n")
    (here / "twice.py").write_text("def here(): ...\n")
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("PYTHONPATH", str(here / "elsewhere"))
    assert why_not_importable("twice.there") is None
    assert why_not_importable("twice.here") is not None


@pytest.mark.parametrize("source", ["from os.path import *\n", "def __getattr__(name): ...\n"])
def test_a_module_that_makes_its_names_when_imported_gets_the_benefit_of_doubt(here: Path, source: str) -> None:
    (here / "late.py").write_text(source)
    assert why_not_importable("late.anything") is None


def test_a_module_that_is_not_python_is_reported_with_its_line(here: Path) -> None:
    (here / "bad.py").write_text("x = 1\ndef f(:\n")
    assert str(why_not_importable("bad.f")).startswith(f'"bad.f": {here}/bad.py:2 is not valid Python: ')


def test_functions_of_installed_packages_are_found() -> None:
    assert why_not_importable("json.decoder.JSONDecoder") is None
    assert why_not_importable("math.sqrt") is None
    assert why_not_importable("__main__.f") is not None


ONE, SEVERAL = {"fare": [1.5], "hour": 3, "tip": 0}, {"fare": [2.5, 3.5], "hour": 3, "tip": 1}


def with_lists(kind: str, rows: list[dict[str, object]]) -> str:
    """A config over these rows in a file of that kind."""
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), "trips.parquet")
    else:
        Path("trips.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return CONFIG.replace("kind: csv, path: trips.csv", f"kind: {kind}, path: trips.{kind}")


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_lists_under_a_number_are_reported_at_the_feature_with_the_ways_out(kind: str) -> None:
    (problem,) = reported(with_lists(kind, [ONE, SEVERAL]))
    assert problem.startswith('c.yaml:6: features.fare: column "fare" holds lists of up to 2 values')
    assert "multivalued" in problem
    assert "column: custom" in problem


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_lists_in_the_label_are_reported_there(kind: str) -> None:
    (problem,) = reported(with_lists(kind, [{"fare": 1.5, "tip": [0, 1]}, {"fare": 2.5, "tip": [1]}]))
    assert problem.startswith('c.yaml:4: label.key: column "tip" holds lists of up to 2 values')


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([ONE, ONE], "numeric"),
        ([ONE, SEVERAL], "hashed, hash_buckets: 5, multivalued: true"),
        ([{"fare": None, "tip": 0}, {"fare": [], "tip": 1}], "numeric"),
    ],
    ids=["lists of one", "a feature of lists", "empty lists"],
)
def test_lists_that_lose_nothing_are_not_a_problem(kind: str, rows: list[dict[str, object]], column: str) -> None:
    assert reported(with_lists(kind, rows).replace("numeric", column)) == []


def test_lists_are_let_through_where_the_gate_only_warns() -> None:
    assert reported(with_lists("jsonl", [ONE, SEVERAL]).replace("label:", "  on_anomaly: warn\nlabel:", 1)) == []


def test_many_absent_columns_are_reported_and_the_nearest_names_of_the_first() -> None:
    features = "".join(f"  fare{number}: {{column: numeric}}\n" for number in range(150))
    problems = reported(CONFIG.replace("  fare: {column: numeric}\n", features))
    assert len(problems) == 150
    assert sum('did you mean "fare"?' in problem for problem in problems) == MAX_SUGGESTIONS


def source(kind: str, fares: list[object], **data: object) -> str:
    """A config over a file of that kind with these fares."""
    path = Path(f"fares.{kind}")
    if kind == "csv":
        path.write_text("fare,tip\n" + "".join(f"{fare},{at % 2}\n" for at, fare in enumerate(fares)), encoding="utf-8")
    elif kind == "jsonl":
        lines = (json.dumps({"fare": fare, "tip": at % 2}) + "\n" for at, fare in enumerate(fares))
        path.write_text("".join(lines), encoding="utf-8")
    else:
        pq.write_table(pa.table({"fare": fares, "tip": [at % 2 for at in range(len(fares))]}), path)
    settings = "".join(f"  {name}: {json.dumps(value)}\n" for name, value in data.items())
    found = CONFIG.replace("{kind: csv, path: trips.csv}", f"{{kind: {kind}, path: {path}}}")
    return found.replace("label:", f"{settings}label:")


def refusal_of_a_run() -> str:
    """What ExampleGen says of the same data."""
    config = load_with_locations("c.yaml").config
    with pytest.raises(DataError) as caught:
        ingest(config.data, find_spans(config.data), Path("out"), lambda _work: serial_map)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_number_beyond_float32_is_reported_in_the_words_of_the_run(kind: str) -> None:
    text = source(kind, [1.5, 2.5, 1e39, 3.5] * 100)
    (problem,) = reported(text)
    assert problem == f"c.yaml:3: data.source.path: {refusal_of_a_run()}"
    assert "1e+39" in problem
    assert reported(source(kind, [1.5, 2.5, 1e39, 3.5] * 100, on_bad_record="skip")) == []


@pytest.mark.parametrize(
    ("fares", "types", "place"),
    [
        ([1.5, "abc"], {"fare": "float"}, "fares.csv:3: column 'fare': 'abc' is not a float"),
        ([1, 1.5], {"fare": "int"}, "fares.csv:3: column 'fare': '1.5' is not an int"),
        ([1.5, "2,7"], {}, "fares.csv:3: the row has 3 fields"),
    ],
)
def test_a_record_that_a_run_refuses_is_reported_with_its_line(fares: list[object], types: object, place: str) -> None:
    text = source("csv", fares, types=types)
    (problem,) = reported(text)
    assert problem == f"c.yaml:3: data.source.path: {refusal_of_a_run()}"
    assert place in problem


@pytest.mark.parametrize("feature", ["{column: numeric}", "{column: bucketized, buckets: 3}"])
@pytest.mark.parametrize(
    ("kind", "fares", "place"),
    [
        ("csv", [1.5, "N/A", 2.5], "fares.csv:3: column 'fare': 'N/A' is not a float"),
        ("csv", ["007", "008"], "set `data.types.fare: float`"),
        ("jsonl", ["1.5", "x"], "fares.jsonl:1: column 'fare'"),
        ("parquet", ["1.5", "x"], "row 1 of row group 0"),
        ("parquet", ["1.5", "2.5"], "set `data.types.fare: float`"),
    ],
)
def test_text_where_a_feature_needs_numbers_is_reported_at_the_feature_with_its_first_value(
    kind: str, fares: list[object], place: str, feature: str
) -> None:
    (problem,) = reported(source(kind, fares).replace("{column: numeric}", feature))
    assert problem.startswith('c.yaml:6: features.fare: column "fare" holds text')
    assert place in problem


def test_text_as_the_label_of_a_regression_is_reported_at_the_label() -> None:
    text = source("csv", [1.5, "x"]).replace("{key: tip, kind: binary}", "{key: fare, kind: regression}")
    (problem,) = reported(text.replace("  fare: {column: numeric}", "  tip: {column: numeric}"))
    assert problem.startswith('c.yaml:4: label.key: column "fare" holds text, and a regression label needs numbers')
    assert "fares.csv:3" in problem


def test_infinite_numbers_are_reported_unless_they_only_warn() -> None:
    (problem,) = reported(source("csv", [1.5, "1e999", "2.5"]))
    assert problem.startswith('c.yaml:6: features.fare: column "fare" holds inf')
    assert reported(source("csv", [1.5, "1e999", "2.5"], on_anomaly="warn")) == []


def test_a_column_of_numbers_that_may_become_text_further_on_is_not_refused() -> None:
    """Two spans: the newest holds a number beyond float32 in a column that no feature reads, the other one texts."""
    for day, note in (("2026-01-01", "x"), ("2026-01-02", "1e39")):
        Path(f"{day}.csv").write_text(f"fare,note,tip\n1.5,{note},0\n", encoding="utf-8")
    config = CONFIG.replace("trips.csv", "'{YYYY}-{MM}-{DD}.csv'")
    assert reported(config.replace("label:", "  window: 2\nlabel:")) == []
    (problem,) = reported(config)
    assert "'note'" in problem


def test_columns_that_are_not_read_are_not_looked_at() -> None:
    Path("trips.csv").write_text("fare,note,tip\n1.5,1e39,0\n", encoding="utf-8")
    assert "'note'" in reported(CONFIG)[0]
    assert reported(CONFIG.replace("label:", "  columns: used\nlabel:")) == []


def test_a_mistake_beyond_the_first_megabytes_is_left_to_the_run() -> None:
    assert reported(source("csv", [*range(600_000), "abc"])) == []
    (problem,) = reported(source("csv", [*range(60_000), "abc"]))
    assert "fares.csv:60002" in problem


def both(text: str, *overrides: str) -> list[str]:
    """All that `headrace validate` says."""
    Path("c.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(Path("c.yaml"), None, overrides, data=True)
    return [str(problem) for problem in caught.value.problems]


def test_mistakes_of_the_config_and_of_the_data_are_reported_at_once() -> None:
    text = CONFIG.replace("fare: {column: numeric}", "fair: {column: numeric, normalise: log}")
    form, rule, data, slices = both(text + "train: {epochs: many}\nevaluate: {slices: [zone]}\n")
    assert form.startswith("c.yaml:6: ")
    assert "normalise" in form
    assert rule.startswith("c.yaml:7: ")
    assert data.startswith('c.yaml:6: features.fair: "fair" ')
    assert data.endswith('; did you mean "fare"?')
    assert slices.startswith("c.yaml:8: evaluate.slices[0]")


def test_values_that_a_run_refuses_are_reported_along_with_mistakes_in_the_config() -> None:
    form, data = both(source("csv", [1.5, "abc"]) + "train: {epochs: 0}\n")
    assert "train.epochs" in form
    assert "fares.csv:3: column 'fare': 'abc' is not a float" in data


def test_mistakes_across_sections_do_not_hide_those_of_the_data() -> None:
    rule, data = both(CONFIG.replace("key: tip", "key: tips") + "evaluate: {metrics: [accuracy]}\n")
    assert "evaluate.metrics" in rule
    assert "label.key" in data


def test_a_feature_of_no_kind_is_reported_once_and_what_crosses_it_is_not() -> None:
    crossed = "  area: {column: numric}\n  both: {column: crossed, keys: [area, hour], hash_buckets: 9}\n"
    (problem,) = both(CONFIG + crossed)
    assert problem.startswith("c.yaml:7: ")


@pytest.mark.parametrize(
    "text",
    [
        CONFIG.replace("path: trips.csv", "path: trips.csv, delimiter: 7"),
        CONFIG.replace("kind: csv", "kind: cvs"),
        CONFIG.replace("key: tip, ", ""),
        CONFIG.replace("  fare: {column: numeric}\n", "").replace("features:", "features: {}"),
        CONFIG + "traine: {epochs: 1}\n",
        "- a list\n",
        "a: [\n",
    ],
)
def test_a_mistake_that_leaves_it_open_what_is_read_is_reported_alone(text: str) -> None:
    """The data would be read otherwise than it is meant."""
    assert len(both(text.replace("fare:", "fair:") if "traine" not in text else text)) == 1


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(["pipeline", "data", "label", "features", "train", "x"]), JSON, max_size=5))
def test_whatever_is_written_a_config_s_mistakes_are_reported_and_nothing_fails(values: dict[str, object]) -> None:
    assert both(json.dumps({"pipeline": {"name": "x"}, "label": {"key": "tip", "kind": "binary"}} | values))


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("model.run_fn", "def run_fn(fn_args): ...", []),
        ("model.run_fn", "def run_fn(fn_args, steps=3, *, more=None): ...", []),
        ("model.run_fn", "def run_fn(): ...", ["run_fn()", "run_fn(fn_args)"]),
        ("model.run_fn", "def run_fn(fn_args, steps): ...", ["own.py:1", "run_fn(fn_args, steps)"]),
        ("model.run_fn", "class run_fn: ...", ["class"]),
        ("model.run_fn", "from x import *", []),
        ("model.run_fn", "def train(fn_args): ...", ["does not define run_fn"]),
        ("features.function", "def preprocessing_fn(inputs, custom_config): ...", []),
        ("features.function", "def preprocessing_fn(inputs, schema): ...", ["inputs, schema"]),
    ],
)
def test_functions_of_a_tfx_pipeline_must_take_its_arguments(name: str, code: str, words: list[str]) -> None:
    good = {"model.run_fn": "def run_fn(fn_args): ...", "features.function": "def preprocessing_fn(inputs): ..."}
    modules = {each: "own" if each == name else "others" for each in good}
    for each, module in modules.items():
        Path(f"{module}.py").write_text(code if each == name else good[each], encoding="utf-8")
    functions = CONFIG.replace("  fare: {column: numeric}\n", "") + (
        f"  function: {modules['features.function']}.preprocessing_fn\n"
        f"model: {{run_fn: {modules['model.run_fn']}.run_fn, train_steps: 1, eval_steps: 1}}\n"
    )
    problems = reported(functions)
    assert len(problems) == bool(words)
    for word in words:
        assert word in problems[0]
    assert all(f" {name}: " in problem for problem in problems)
