"""Files that appear whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import errno
import multiprocessing
import os
import stat
from pathlib import Path

import pytest
from dying import changes, deaths, full_disks

from headrace.common.checksums import checksum, file_checksum
from headrace.common.durable import PARTIAL_SUFFIX, replacing, sync_tree, write_bytes, write_output, write_text


def test_file_is_on_the_disk_before_it_is_renamed_and_its_name_after(tmp_path: Path) -> None:
    file = tmp_path / "blessed.json"
    found = [what.split()[0] for what in changes(lambda: write_text(file, "new"), tmp_path)]
    assert found[-4:] == ["open", "fsync", "rename", "fsync"]
    names = [what.split()[1] for what in changes(lambda: write_text(file, "new"), tmp_path)]
    partial = names[-3]
    assert partial.endswith(PARTIAL_SUFFIX)
    assert names[-4:] == [partial, partial, partial, "."]


def test_error_names_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    file = tmp_path / "blessed.json"
    for number, named in ((errno.ENOSPC, str(file)), (errno.ECONNRESET, None)):
        with pytest.raises(OSError, match=os.strerror(number)) as caught, replacing(file):
            raise OSError(number, os.strerror(number))
        assert caught.value.filename == named
    with pytest.raises(OSError, match=r"^\[Errno \d+\] .*: '/proc/blessed\.json'$"):
        write_text(Path("/proc/blessed.json"), "new")
    assert [*tmp_path.iterdir()] == []


def test_error_of_the_flush_or_the_rename_names_the_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match=rf"^\[Errno \d+\] [\w ]+: '{tmp_path}/folder'$"):
        write_text(tmp_path / "folder", "new")

    def over_quota(descriptor: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "fsync", over_quota)
    with pytest.raises(OSError, match="quota") as caught_at_flush:
        write_text(tmp_path / "blessed.json", "new")
    assert caught_at_flush.value.filename == str(tmp_path / "blessed.json")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_output_goes_through_links_into_devices_and_only_into_folders_that_exist(tmp_path: Path) -> None:
    file, link = tmp_path / "pipeline.yaml", tmp_path / "link.yaml"
    link.symlink_to(file)
    for text in ("old", "new"):
        write_output(link, text)
        assert (file.read_text(), link.is_symlink()) == (text, True)
    write_output(Path(os.devnull), "anything")
    assert Path(os.devnull).is_char_device()
    with pytest.raises(FileNotFoundError) as caught:
        write_output(tmp_path / "none" / "pipeline.yaml", "new")
    assert caught.value.filename == str(tmp_path / "none" / "pipeline.yaml")
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_kill_at_any_moment_leaves_the_old_text_or_the_new_one_and_the_next_write_clears_up(tmp_path: Path) -> None:
    file = tmp_path / "a" / "blessed.json"
    write_text(file, "old")
    found = []
    for _ in deaths(lambda: write_text(file, "new"), tmp_path):
        found.append(file.read_text())
        write_text(file, "old")
        assert [path.name for path in file.parent.iterdir()] == ["blessed.json"]
    assert found[0] == "old"
    assert found[-1] == "new"
    assert sorted(found, reverse=True) == found
    print(f"{len(found)} kills")


def test_full_disk_leaves_the_old_text_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "blessed.json"
    write_text(file, "old")
    count = 0
    for _ in full_disks(lambda: write_text(file, "new"), tmp_path):
        count += 1
        assert file.read_text() == "old"
        assert [path.name for path in tmp_path.iterdir()] == ["blessed.json"]
    assert count >= 3


def test_partial_file_of_a_write_that_continues_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    with replacing(file) as first:
        first.write_text("first")
        write_text(file, "second")
        assert first.read_text() == "first"
    assert file.read_text() == "first"


def _write_many(file: Path, text: str) -> None:
    for _ in range(100):
        write_text(file, text * 1000)


@pytest.mark.slow
def test_writers_at_the_same_time_never_mix(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=_write_many, args=(file, text)) for text in "abc"]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        if file.exists():
            text = file.read_text()
            assert text == text[0] * 1000
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_files_can_be_read_by_whom_the_umask_lets(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_tree_is_synced_from_the_inside_out(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "b" / "c", "x")
    found = changes(lambda: sync_tree(tmp_path / "a"), tmp_path)
    assert found == ["fsync a/b/c", "fsync a/b", "fsync a"]


def test_checksum_is_that_of_the_standard(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123456789")
    assert file_checksum(tmp_path / "a") == 0xE3069283  # RFC 3720's check value of CRC32C


@pytest.mark.parametrize("change", ["a byte", "a name", "a file more", "a file less", "a folder"])
def test_checksum_of_a_folder_sees_each_change(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "model"
    for name in ("saved_model.pb", "variables/index"):
        write_text(folder / name, name)
    before = checksum(folder)
    assert checksum(folder) == before
    match change:
        case "a byte":
            (folder / "saved_model.pb").write_text("saved_model.pc")
        case "a name":
            (folder / "saved_model.pb").rename(folder / "saved_model.pc")
        case "a file more":
            (folder / "more").touch()
        case "a file less":
            (folder / "variables" / "index").unlink()
        case _:
            (folder / "variables").rename(folder / "variable")
    assert checksum(folder) != before
