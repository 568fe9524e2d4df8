"""How large the image will be, and that the lists of what it leaves out hold."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from headrace.pipeline.image.size import COMPILED, counted, layers, listed, packages

ROOT = Path(__file__).parents[3]
MOST = 3_000_000_000


@pytest.mark.slow
def test_image_for_cpus_stays_under_3_gb() -> None:
    found, unknown = layers(ROOT, "cpu")
    assert unknown == []
    total = sum(layer.size for layer in found)
    assert 2_000_000_000 < total < MOST  # less would mean that something is not counted
    assert found[1].name == "packages"
    assert sum(layer.size for layer in found[2:]) < 20_000_000  # what a change of code builds again


def test_sizes_that_cannot_be_read_here_are_of_the_locked_versions() -> None:
    measured = set(json.loads((ROOT / "image" / "measured.json").read_text()))
    cpu, gpu = (packages(ROOT, variant) for variant in ("cpu", "gpu"))
    not_here = {
        name: version for name, version in (cpu | gpu).items() if name.startswith(("nvidia-", "tensorflow-cpu"))
    }
    assert measured == {f"{name}=={version}" for name, version in not_here.items()}, "run tools/measure_wheels.py"
    assert gpu.keys() - cpu.keys() == not_here.keys() - {"tensorflow-cpu"} | {"tensorflow"}


def test_packages_are_those_that_uv_would_install() -> None:
    uv = [sys.executable, "-m", "uv", "export", "--frozen", "--no-default-groups", "--no-emit-project", "--no-header"]
    uv += ["--group", "image-cpu", "--extra", "sql", "--extra", "tfds", "--no-hashes", "--no-annotate"]
    done = subprocess.run(uv, cwd=ROOT, check=True, capture_output=True, text=True)
    from packaging.requirements import Requirement

    from headrace.pipeline.image.size import TARGET

    wanted = [Requirement(line) for line in done.stdout.splitlines() if line.strip()]
    here = {one.name: str(one.specifier)[2:] for one in wanted if one.marker is None or one.marker.evaluate(TARGET)}
    left_out = {*listed(ROOT / "image" / "left-out-packages.txt"), "tensorflow"}
    assert packages(ROOT, "cpu") == {name: version for name, version in here.items() if name not in left_out}


def test_what_is_left_out_is_locked_and_not_wanted_by_our_own_code() -> None:
    left_out = listed(ROOT / "image" / "left-out-packages.txt")
    assert set(left_out) <= {distribution.metadata["Name"].lower().replace("_", "-") for distribution in installed()}
    patterns = listed(ROOT / "image" / "left-out-files.txt")
    site = Path(str(metadata.distribution("numpy").locate_file("")))
    for pattern in patterns:
        assert list(site.glob(pattern)), pattern


def installed() -> list[metadata.Distribution]:
    return list(metadata.distributions())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/x.so", 1000),
        ("a/x.py", 1000 + round(1000 * COMPILED)),
        ("a/__pycache__/x.cpython-311.pyc", 0),
        ("a/tests/x.so", 0),
        ("a/b/tests/x.so", 0),
        ("a/b/c/tests/x.so", 1000),  # as in the shell, a star ends at a slash
        ("a/tests", 1000),
    ],
)
def test_files_count_as_they_will_lie_in_the_image(name: str, expected: int) -> None:
    assert counted([(name, 1000)], ["a/tests", "a/*/tests"]) == expected
