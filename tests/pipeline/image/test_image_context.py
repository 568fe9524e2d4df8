"""What goes into the image, and the tag that is made of it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from headrace.common.errors import RunError
from headrace.pipeline.image import context
from headrace.pipeline.image.context import CODE, REQUIREMENTS, content_tag, stage

ROOT = Path(__file__).parents[3]


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "shop").mkdir(parents=True)
    (folder / "shop" / "features.py").write_text("def speed(raw):\n    return raw\n")
    (folder / "shop" / "cities.txt").write_text("Bern\n")
    return folder


def staged(folder: Path, code: Path | None = None) -> Path:
    folder.mkdir()
    stage(folder, code)
    return folder


def test_context_has_what_the_dockerfile_copies_and_nothing_else(tmp_path: Path) -> None:
    folder = staged(tmp_path / "context")
    dockerfile = (ROOT / "Dockerfile").read_text()
    copied = {word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile, re.M) for word in line.split()}
    for path in copied:
        assert (folder / path).exists(), path
    tops = {Path(path).parts[0] for path in copied} | {"Dockerfile", ".dockerignore"}
    assert {path.name for path in folder.iterdir()} == tops
    assert not list(folder.rglob("__pycache__"))


def test_what_an_editor_leaves_among_the_sources_does_not_go_along(tmp_path: Path) -> None:
    (tmp_path / "project" / "report").mkdir(parents=True)
    for name in ("a.py", "page.html", "a.py~", "scratch", "report/b.py", ".a.py.swp", ".#a.py", "#a.py#", "a.py.orig"):
        (tmp_path / "project" / name).write_text("x")
    context._copy(tmp_path / "project", tmp_path / "copy")
    found = {path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*.*")}
    assert found == {"a.py", "page.html", "report/b.py"}


def test_every_file_of_the_project_s_parts_goes_along(tmp_path: Path) -> None:
    asked = subprocess.run(["git", "ls-files", *context.PARTS], cwd=ROOT, capture_output=True, text=True, check=False)
    if asked.returncode:
        pytest.skip("no clone")
    folder = staged(tmp_path / "context")
    there = [name for name in asked.stdout.splitlines() if (ROOT / name).exists()]
    configs = [name for name in there if re.fullmatch(r"configs/[^/]*\.yaml", name)]
    assert configs
    assert [name for name in there if not (folder / name).exists()] == configs
    assert len(there) > 100


def test_dockerignore_lets_in_the_same(tmp_path: Path) -> None:
    allowed = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.M)
    assert {*allowed, "Dockerfile", ".dockerignore"} == {*context.PARTS}


@pytest.mark.slow
def test_same_code_gives_the_same_tag_and_an_edit_another(tmp_path: Path, code: Path) -> None:
    first = content_tag(staged(tmp_path / "1", code), "cpu")
    for file in code.rglob("*"):
        os.utime(file, (0, 0))
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert content_tag(staged(tmp_path / "2", code), "cpu") == first
    assert content_tag(tmp_path / "2", "gpu") != first
    (code / "shop" / "features.py").write_text("def speed(raw):\n    return raw * 2\n")
    assert content_tag(staged(tmp_path / "3", code), "cpu") != first
    assert content_tag(staged(tmp_path / "4"), "cpu") != first


def test_a_config_that_names_the_image_leaves_the_tag_as_it_is(tmp_path: Path, code: Path) -> None:
    (code / "shop.yaml").write_text("pipeline: {name: shop}\n")
    (code / "shop.night.yml").write_text("kubeflow: {image: 'registry.example/h:1'}\n")
    (code / "shop" / "limits.yaml").write_text("pipeline: 5\nspeed: 120\n")  # some module's own
    (code / "shop" / "broken.yaml").write_text("a: [\n")
    first = staged(tmp_path / "1", code)
    assert {path.name for path in (first / CODE).rglob("*.y*ml")} == {"limits.yaml", "broken.yaml"}
    (code / "shop.night.yml").write_text(f"kubeflow: {{image: 'registry.example/h:{content_tag(first, 'cpu')}'}}\n")
    assert content_tag(staged(tmp_path / "2", code), "cpu") == content_tag(first, "cpu")
    (code / "shop" / "limits.yaml").write_text("pipeline: 5\nspeed: 50\n")
    assert content_tag(staged(tmp_path / "3", code), "cpu") != content_tag(first, "cpu")


def test_users_modules_and_their_files_go_along_but_not_what_runs_make(tmp_path: Path, code: Path) -> None:
    for junk in (".git/config", ".env", "runs/x/y.py", "serving/1/saved_model.pb", "env/pyvenv.cfg", "env/lib/z.py"):
        (code / junk).parent.mkdir(parents=True, exist_ok=True)
        (code / junk).write_text("x")
    inside = staged(tmp_path / "context", code) / CODE
    found = {str(path.relative_to(inside)) for path in inside.rglob("*") if path.is_file()}
    assert found == {"README.md", "shop/features.py", "shop/cities.txt"}


def test_folder_without_modules_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match="no Python module"):
        staged(tmp_path / "context", tmp_path / "empty")


def test_data_among_the_code_is_refused_by_name(tmp_path: Path, code: Path) -> None:
    with (code / "trips.csv").open("wb") as file:
        file.truncate(context.MOST + 1)
    with pytest.raises(RunError, match=r"100 MB .*largest .*trips\.csv"):
        staged(tmp_path / "context", code)


def test_credential_among_the_code_is_refused_without_being_repeated(tmp_path: Path, code: Path) -> None:
    key = "AKIA" + "A1B2C3D4E5F6G7H8"
    (code / "shop" / "store.py").write_text(f"KEY = '{key}'\n")
    with pytest.raises(RunError, match=r"store\.py: .*an AWS access key") as error:
        staged(tmp_path / "context", code)
    assert key not in str(error.value)


@pytest.mark.parametrize(
    "line",
    [
        'connect(host="db", user="me", password=os.environ["DB_PASSWORD"])',
        'headers = {"Authorization": "Bearer " + os.environ["TOKEN"]}',
        'url = f"postgresql://{user}:{password}@db/taxi"',
    ],
)
def test_code_that_takes_its_credential_from_the_environment_goes_along(tmp_path: Path, code: Path, line: str) -> None:
    (code / "shop" / "store.py").write_text(f"{line}\n")
    assert (staged(tmp_path / "context", code) / CODE / "shop" / "store.py").exists()


def test_password_in_an_address_is_refused_though_others_are_filled_in(tmp_path: Path, code: Path) -> None:
    address = "postgresql://{user}:" + "hunter2@db/taxi"
    (code / "shop" / "store.py").write_text(f"url = f'postgresql://{{user}}:{{password}}@db'\nother = f'{address}'\n")
    with pytest.raises(RunError, match=r"store\.py: .*a URL with a password"):
        staged(tmp_path / "context", code)


def test_users_packages_go_along_and_make_another_tag(tmp_path: Path) -> None:
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("openpyxl==3.1.5\n")
    (tmp_path / "with").mkdir()
    stage(tmp_path / "with", requirements=wanted)
    assert (tmp_path / "with" / REQUIREMENTS).read_text() == "openpyxl==3.1.5\n"
    assert content_tag(tmp_path / "with", "cpu") != content_tag(staged(tmp_path / "without"), "cpu")
    wanted.write_text("--index-url https://me:" + "hunter2@packages.example/simple\nopenpyxl==3.1.5\n")
    with pytest.raises(RunError, match="a URL with a password"):
        stage(tmp_path / "with", requirements=wanted)


def test_installation_without_the_sources_says_where_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "PROJECT", tmp_path / "site-packages")
    with pytest.raises(RunError, match=r"(?s)has no Dockerfile.*from a clone of the project"):
        staged(tmp_path / "context")
