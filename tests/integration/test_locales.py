"""The installed command in a locale other than UTF-8, with names and values that ISO-8859-1 writes in another way."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from parcels import write_parcels

LOCALE = "de_DE.ISO-8859-1"
COMMAND = Path(sys.executable).with_name("headrace")
CONFIG = """\
pipeline: {name: pakete, root: Läufe}
data: {source: {kind: csv, path: Köln/pakete.csv}}
label: {key: zu_spät, kind: binary}
features:
  distance: {column: numeric}
  strasse: {key: Straße, column: vocabulary}
model: {kind: dnn, hidden: [4]}
train: {epochs: 1, batch_size: 64}
evaluate: {metrics: [auc], slices: [Straße], better_than_constant: false}
deploy: {push: Köln/serving}
"""


@dataclass(frozen=True)
class Locale:
    """A folder with a config and data, and the environment of someone who works in LOCALE."""

    folder: Path
    environment: dict[str, str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [COMMAND, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )

    def on_a_terminal(self, *arguments: str) -> tuple[int, bytes]:
        """The exit status, and what the terminal got."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [COMMAND, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        with open(ours, "rb", buffering=0) as terminal:
            return process.wait(), b"".join(_until_closed(terminal.fileno()))


def _until_closed(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(descriptor, 1 << 16)
        except OSError:  # Linux' way to say that nobody has the other end any more
            return


@pytest.fixture(scope="module")
def latin(tmp_path_factory: pytest.TempPathFactory) -> Locale:
    if shutil.which("localedef") is None:
        pytest.skip("localedef is not installed, so no locale other than UTF-8 can be made")
    locales = tmp_path_factory.mktemp("locales")
    made = subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", locales / LOCALE], check=False, capture_output=True
    )
    if made.returncode:
        pytest.skip("localedef has no definition of de_DE or of ISO-8859-1")
    folder = tmp_path_factory.mktemp("locale")
    (folder / "Köln").mkdir()
    data = folder / "Köln" / "pakete.csv"
    write_parcels(data, 400)
    text = data.read_text(encoding="utf-8").replace("carrier", "Straße").replace("late", "zu_spät")
    data.write_text(text.replace("post", "Köln"), encoding="utf-8")
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
    named = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONUTF8", "LANG")}
    return Locale(folder, {**named, "LOCPATH": str(locales), "LC_ALL": LOCALE, "COLUMNS": "200"})


def test_locale_is_what_python_takes_texts_by(latin: Locale) -> None:
    command = [sys.executable, "-c", "import locale; print(locale.getencoding())"]
    done = subprocess.run(command, env=latin.environment, check=True, capture_output=True)
    assert done.stdout.strip() == b"ISO-8859-1"


@pytest.mark.slow
def test_run_and_report_in_another_encoding_find_all_that_was_written(latin: Locale) -> None:
    run = latin.run("run", "config.yaml")
    assert run.returncode == 0, (run.stdout + run.stderr).decode(errors="replace")
    assert b"Traceback" not in run.stderr
    assert list(latin.folder.glob("Köln/serving/**/saved_model.pb"))
    assert (latin.folder / "Läufe").is_dir()
    assert sorted(path.name for path in latin.folder.iterdir()) == ["Köln", "Läufe", "config.yaml"]
    report = latin.run("report", "config.yaml")
    assert report.returncode == 0, (report.stdout + report.stderr).decode(errors="replace")
    (page,) = latin.folder.glob("Läufe/**/report.html")
    text = page.read_text(encoding="utf-8")
    assert "Straße" in text
    assert "Köln" in text


def test_terminal_gets_its_own_encoding_and_escapes_for_what_that_has_not(latin: Locale) -> None:
    (latin.folder / "wrong.yaml").write_text(CONFIG.replace("vocabulary", "vocabulärŷ"), encoding="utf-8")
    try:
        code, shown = latin.on_a_terminal("validate", "wrong.yaml")
    finally:
        (latin.folder / "wrong.yaml").unlink()
    assert code == 1
    assert b"vocabul\xe4r\\u0177" in shown


@pytest.mark.parametrize("unset", [{"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, {}], ids=["ascii", "coerced"])
def test_locale_c_takes_and_shows_utf_8(latin: Locale, unset: dict[str, str]) -> None:
    done = subprocess.run(
        [COMMAND, "validate", "config.yaml", "--set", "features.strasse.column=Ωμέγα"],
        cwd=latin.folder,
        env={**latin.environment, "LC_ALL": "C", **unset},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Ωμέγα" in done.stderr.decode()
    assert b"Traceback" not in done.stderr
