"""A file that is found under several names is read once, and the run says so."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from span_runs import config, generate, ids, reported, write

from headrace.components.example_gen.ingest import ingest
from headrace.components.sources import serial_map
from headrace.components.spans.find import find_spans
from headrace.components.spans.manifest import SpanManifest
from headrace.configs.schema.data import DataConfig


def symlink(folder: Path) -> None:
    (folder / "in/b.csv").symlink_to("a.csv")


def hard_link(folder: Path) -> None:
    os.link(folder / "in/a.csv", folder / "in/b.csv")


def linked_folder(folder: Path) -> None:
    (folder / "in/again").symlink_to(folder / "in", target_is_directory=True)


def chain_of_links(folder: Path) -> None:
    (folder / "in/c.csv").symlink_to("a.csv")
    (folder / "in/b.csv").symlink_to("c.csv")


@pytest.mark.parametrize("link", [symlink, hard_link, linked_folder, chain_of_links])
def test_a_linked_file_is_read_once_and_named(folder: Path, link: object) -> None:
    write("in/a.csv", 0, rows=40)
    write("in/z.csv", 100, rows=40)
    link(folder)  # type: ignore[operator]
    examples = generate(folder, config("in/**/*.csv"))
    assert ids(examples) == [*range(40), *range(100, 140)]
    notes = [line for line in reported(examples, "gaps") if "read once" in line]
    assert notes
    assert all("in/a.csv" in line or "in/z.csv" in line or "more paths" in line for line in notes)
    assert str(folder / "in/a.csv is") not in "\n".join(notes)  # the name without a link is the one that is kept
    assert len(notes) <= 11


def test_several_loops_in_a_folder_come_to_an_end(folder: Path) -> None:
    write("in/x/a.csv", 0, rows=40)
    for name in ("one", "two", "three"):
        (folder / "in/x" / name).symlink_to(folder / "in", target_is_directory=True)
    for pattern in ("in/**/*.csv", "in/**", "in/**/x/**/*.csv"):
        manifest = find_spans(config(pattern))
        assert [Path(path) for path in manifest.paths] == [folder / "in/x/a.csv"]
        assert manifest.repeated


def test_patterns_that_spell_a_folder_in_two_ways_meet_in_one_file(folder: Path) -> None:
    write("in/a.csv", 0, rows=40)
    data = config(("in/*.csv", "in/../in/a.csv"))
    (span,) = find_spans(data).spans
    assert [Path(path) for path in span.paths] == [folder / "in/a.csv"]
    assert ids(generate(folder, data)) == [*range(40)]


def test_within_a_span_a_file_is_read_once_and_in_two_spans_in_both(folder: Path) -> None:
    write("in/1/a.csv", 0, rows=40)
    os.link("in/1/a.csv", "in/1/b.csv")
    (folder / "in/2").mkdir()
    os.link("in/1/a.csv", "in/2/a.csv")
    manifest = find_spans(config(("in/{SPAN}/*.csv", "in/{SPAN}/a*"), window="all"))
    assert [[Path(path).name for path in span.paths] for span in manifest.spans] == [["a.csv"], ["a.csv"]]
    assert len(manifest.repeated) == 1
    assert "b.csv" in manifest.repeated[0]


def test_files_of_equal_content_are_two_files(folder: Path) -> None:
    write("in/a.csv", 0, rows=20)
    write("in/b.csv", 0, rows=20)
    manifest = find_spans(config("in/*.csv"))
    assert (len(manifest.paths), manifest.repeated) == (2, ())
    assert ids(generate(folder, config("in/*.csv"))) == sorted([*range(20), *range(20)])


def test_the_manifest_keeps_what_it_says_through_json(folder: Path) -> None:
    write("in/a.csv")
    symlink(folder)
    manifest = find_spans(config("in/*.csv"))
    assert SpanManifest.from_json(manifest.to_json()) == manifest


def test_images_behind_a_loop_are_read_once(folder: Path) -> None:
    for number in range(30):
        path = folder / f"images/{'cat' if number % 2 else 'dog'}/{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(path)
    (folder / "images/cat/loop").symlink_to(folder / "images/dog", target_is_directory=True)
    data = DataConfig.model_validate({"source": {"kind": "images", "path": str(folder / "images")}})
    manifest = find_spans(data)
    found = ingest(data, manifest, folder / "out", lambda _work: serial_map)
    assert sum(found.rows.values()) == 30
    assert len(manifest.paths) == 30
    assert [line for line in found.gaps if "loop" in line]
