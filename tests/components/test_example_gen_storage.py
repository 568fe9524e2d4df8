"""Local files, S3 and Google Cloud Storage read alike; S3 from a real server process, Google's from an emulator."""

import glob
import gzip
import hashlib
import os
import random
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import forks
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import says
from stores import Bucket, message

from headrace.common.errors import DataError
from headrace.common.storage.files import (
    FileState,
    arrow_file,
    checksum,
    is_folder,
    open_file,
    resolve,
    stat,
    stats,
)
from headrace.common.storage.find import matches_glob
from headrace.components.sources.streams import line_at, open_stream, read_fully

TREE = [
    "a.csv",
    "b.csv.gz",
    "[x].csv",
    ".hidden.csv",
    "a b#?%20é.csv",
    "d/a.csv",
    "d/e/a.csv",
    "d/e/f/ab.csv",
    "d/.g/a.csv",
    "e/e/b.txt",
]
PATTERNS = [
    "*",
    "*.csv",
    "?.csv",
    "[ab].csv*",
    "[!b]*",
    "[x].csv",
    "[[]x].csv",
    ".*",
    "a b#[?]%20é.csv",
    "**",
    "**/*.csv",
    "**/a.csv",
    "d/**/a*",
    "d/*/*",
    "*/e/*",
    "d/**",
    "**/.g/*",
    "d/e/a.csv",
]
ROOT = Path(__file__).parents[2]


def planted(folder: Path) -> Path:
    for name in TREE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_patterns_mean_the_same_on_every_storage(bucket: Bucket, tmp_path: Path) -> None:
    planted(tmp_path)
    for name in TREE:
        bucket.put(name, name)
    for pattern in PATTERNS:
        local = [Path(file).relative_to(tmp_path).as_posix() for file in resolve(str(tmp_path / pattern))]
        assert [path.removeprefix(f"{bucket.url}/") for path in resolve(f"{bucket.url}/{pattern}")] == local, pattern


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    names=st.lists(st.lists(st.text("ab.[!", min_size=1, max_size=3), min_size=1, max_size=4), min_size=1, max_size=6),
    pattern=st.lists(
        st.sampled_from(["**", "*", "?", "a*", "*b", "[ab]*", "[!a]*", ".*", "**b", "[", "a"]), max_size=4
    ),
)
def test_a_pattern_matches_what_glob_matches(names: list[list[str]], pattern: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            with suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
                path = Path(folder, *name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        files = {file.relative_to(folder).as_posix() for file in Path(folder).rglob("*") if file.is_file()}
        found = {
            os.path.normpath(file)
            for file in glob.glob("/".join(pattern), root_dir=folder, recursive=True)
            if not file.endswith("/")
        }
        assert {file for file in files if matches_glob(file.split("/"), pattern)} == found & files


def test_several_patterns_give_each_file_once_and_sorted(s3_bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "z.csv").touch()
    paths = [s3_bucket.put(name, name) for name in ("a.csv", "b.csv")]
    patterns = [paths[1], f"{s3_bucket.url}/*.csv", str(tmp_path / "*"), paths[0].replace("s3://", "minio://")]
    assert resolve(patterns) == [str(tmp_path / "z.csv"), *paths]


def test_a_file_is_known_by_size_and_mark(bucket: Bucket) -> None:
    paths = [bucket.put("a.csv", b"a\n1\n"), bucket.put("b.csv", b"b\n")]
    before = stats(paths)
    assert [(file.path, file.size) for file in before] == [(paths[0], 4), (paths[1], 2)]
    assert before == stats(paths)
    bucket.put("a.csv", b"a\n2\n")
    assert stat(paths[0]).size == 4
    assert stat(paths[0]).mark != before[0].mark


def test_the_mark_of_a_local_file_is_its_time_of_change(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("a\n")
    assert stat(str(file)) == FileState(str(file), 2, str(file.stat().st_mtime_ns))


def test_folders_are_distinguished_from_files(bucket: Bucket, tmp_path: Path) -> None:
    path = bucket.put("d/a.csv", "a")
    assert is_folder(f"{bucket.url}/d")
    assert is_folder(f"{bucket.url}/d/")
    assert not is_folder(path)
    assert not is_folder(f"{bucket.url}/none")
    assert is_folder(str(tmp_path))


def test_reading_gives_what_was_written_from_wherever_it_starts(bucket: Bucket) -> None:
    content = random.Random(0).randbytes(3_000_000)
    path = bucket.put("f", content)
    generator = random.Random(1)
    with open_file(path) as stream:
        for _ in range(30):
            at, size = generator.randrange(3_100_000), generator.choice([0, 1, 100, 70_000, 2_000_000])
            assert stream.seek(at) == at
            assert stream.read(size) == content[at : at + size]
            assert stream.tell() == at + len(content[at : at + size])
        stream.seek(-5, os.SEEK_END)
        assert stream.read() == content[-5:]
        assert stream.read(10) == b""
        stream.seek(0)
        assert read_fully(stream, len(content) + 1) == content
    assert checksum(path) == hashlib.sha256(content).hexdigest()
    assert arrow_file(path).read() == content


def test_an_empty_object_is_read_as_nothing(s3_bucket: Bucket) -> None:
    path = s3_bucket.put("f.csv", b"")
    with open_file(path) as stream:
        assert stream.read() == b""
    assert (stat(path).size, checksum(path)) == (0, hashlib.sha256(b"").hexdigest())


def test_gzip_is_unpacked_by_the_ending(bucket: Bucket) -> None:
    text = b"".join(b"%d\n" % number for number in range(300_000))
    path = bucket.put("f.csv.gz", gzip.compress(text[:1000]) + gzip.compress(text[1000:]))
    with open_stream(path) as stream:
        assert stream.read() == text
        stream.seek(900)
        assert stream.read(200) == text[900:1100]
    assert line_at(path, 40) == 1 + text[:40].count(b"\n")
    bucket.put("f.csv.gz", gzip.compress(text)[:-9])
    assert says(message(lambda: line_at(path, len(text) + 1)), f"{path}: …truncated\n  Copy")


def test_local_paths_connect_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    program = (
        "import sys\n"
        "from headrace.components.sources import open_source\n"
        "from headrace.configs.schema.sources import CsvSource\n"
        "print(open_source(CsvSource(kind='csv', path=sys.argv[1])).columns())\n"
        "print({'pyarrow.fs', 'pyarrow._s3fs', 'tensorflow', 'apache_beam'} & {*sys.modules})\n"
    )
    assert _python(program, str(tmp_path / "*.csv")) == ["['a', 'b']", "set()"]


@pytest.mark.slow
def test_a_forked_child_reads_from_s3_if_its_parent_has_not(s3_bucket: Bucket, tmp_path: Path) -> None:
    path = s3_bucket.put("a.csv", "a\n1\n")
    program = (
        "import os, sys\n"
        "from headrace.components.example_gen import component\n"
        "from headrace.common.storage.files import checksum, stat\n"
        "print(len(sys.argv) > 2 and stat(sys.argv[1]).size, flush=True)\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        print(checksum(sys.argv[1]), flush=True)\n"
        "    except RuntimeError as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    (tmp_path / "forks.py").write_text(program)
    done = forks.run([sys.executable, str(tmp_path / "forks.py"), path])  # itself a child of what imported all of TFX
    assert done.stdout.splitlines() == ["False", hashlib.sha256(b"a\n1\n").hexdigest()], done.stderr
    before = _python(program.replace("from headrace.components.example_gen import component\n", ""), path, "before")
    assert before[0] == "4"
    assert says(before[1], "…object store …before …forked, ")


def _python(program: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("pattern", ["day.csv", "*.csv"])
def test_link_to_nothing_is_named_with_what_it_means(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "other.csv").write_text("a\n1\n", encoding="utf-8")
    (tmp_path / "day.csv").symlink_to("../gone/day.csv")
    with pytest.raises(DataError, match=r"link to \.\./gone/day\.csv, .*exist") as caught:
        resolve(str(tmp_path / pattern))
    assert caught.value.file == str(tmp_path / "day.csv")


def test_pipe_is_distinguished_from_a_link_to_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "day.csv")
    (tmp_path / "link.csv").symlink_to("day.csv")
    for name in ("day.csv", "link.csv"):
        with pytest.raises(DataError, match="is a pipe or a device"):
            resolve(str(tmp_path / name))
