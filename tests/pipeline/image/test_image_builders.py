"""docker, podman and buildah as `headrace image` calls them, and what it makes of their failures.

The tools are small programs on PATH that write down how they were called and answer as the real ones did; where the
real docker client is there, it answers itself.
"""

from __future__ import annotations

import json
import shutil
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.common.errors import HeadraceError, MissingDependencyError, RunError, ServerError
from headrace.pipeline.image.builders import EPOCH, Builder, find_builder
from headrace.pipeline.image.errors import builder_error, registry
from headrace.pipeline.verbs.image import image as verb

DIGEST = "sha256:" + "ab" * 32
REFERENCE = "registry.example/team/headrace:0123"
TOOL = f"""\
#!{sys.executable}
import json, os, sys
log = os.path.join(os.path.dirname(__file__), "calls")
with open(log, "a") as file:
    file.write(json.dumps([os.path.basename(__file__), *sys.argv[1:]]) + "\\n")
if sys.argv[1] == "version" and os.path.exists(log + ".down"):
    sys.exit("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
if sys.argv[1:3] == ["manifest", "inspect"] or sys.argv[0].endswith("skopeo"):
    if not os.path.exists(log + ".pushed"):
        sys.exit("no such manifest: " + sys.argv[-1])
    answer = {{"Descriptor": {{"digest": "{DIGEST}"}}}}
    print("{DIGEST}" if sys.argv[0].endswith("skopeo") else json.dumps(answer))
if sys.argv[1] == "build":
    assert os.path.exists(os.path.join(sys.argv[-1], "Dockerfile"))
if sys.argv[1] == "push":
    if "--digestfile" in sys.argv:
        open(sys.argv[sys.argv.index("--digestfile") + 1], "w").write("{DIGEST}")
    if not os.path.exists(log + ".quiet"):
        print("0123: digest: {DIGEST} size: 1995")
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def put(tools: Path, *names: str) -> None:
    for name in names:
        (tools / name).write_text(TOOL)
        (tools / name).chmod((tools / name).stat().st_mode | stat.S_IEXEC)


def calls(tools: Path) -> list[list[str]]:
    return [json.loads(line) for line in (tools / "calls").read_text().splitlines()]


def image(*arguments: str) -> Result:
    return CliRunner().invoke(verb, arguments)


def test_no_tool_at_all_is_reported_with_the_three_that_would_do(tools: Path) -> None:
    with pytest.raises(MissingDependencyError, match="neither docker nor podman nor buildah"):
        find_builder(None, print)
    with pytest.raises(MissingDependencyError, match="podman is not installed"):
        find_builder("podman", print)


def test_docker_without_its_daemon_makes_room_for_another_tool(tools: Path) -> None:
    put(tools, "docker", "buildah")
    assert find_builder(None, print).name == "docker"
    (tools / "calls.down").touch()
    assert find_builder(None, print).name == "buildah"
    with pytest.raises(MissingDependencyError, match=r"daemon .*: Cannot connect.*\n.*podman or buildah"):
        find_builder("docker", print)


@pytest.mark.skipif(shutil.which("docker") is None, reason="docker is not installed")
def test_real_docker_client_without_a_daemon_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(MissingDependencyError, match=r"docker.* daemon does not answer"):
        find_builder("docker", print)
    with pytest.raises(MissingDependencyError, match=r"docker.* daemon does not answer"):
        Builder("docker", lambda _: None).push(REFERENCE)


@pytest.mark.parametrize("tool", ["docker", "podman", "buildah"])
def test_each_tool_builds_and_pushes_and_the_line_for_the_config_is_printed(tools: Path, tool: str) -> None:
    put(tools, tool)
    done = image("--name", "registry.example/team/headrace", "--push", "--builder", tool, "--gpu")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == f"kubeflow.image: registry.example/team/headrace@{DIGEST}\n"
    build = next(call for call in calls(tools) if call[1] == "build")
    reference = build[build.index("-t") + 1]
    assert build[build.index("--platform") + 1] == "linux/amd64"
    assert f"SOURCE_DATE_EPOCH={EPOCH}" in build
    assert (tool == "docker") != ("--timestamp" in build)  # docker reads it of the arguments
    assert "VARIANT=gpu" in build
    assert f"CONTENT={reference.rpartition(':')[2]}" in build
    assert reference in next(call for call in calls(tools) if call[1] == "push")


@pytest.mark.slow
@pytest.mark.parametrize("names", [("docker",), ("podman", "skopeo"), ("buildah", "skopeo")])
def test_image_that_is_in_its_registry_is_not_built_again(tools: Path, names: tuple[str, ...]) -> None:
    put(tools, *names)
    (tools / "calls.pushed").touch()
    done = image("--name", "registry.example/team/headrace", "--push")
    assert done.stdout == f"kubeflow.image: registry.example/team/headrace@{DIGEST}\n"
    assert "is in its registry already" in done.stderr
    assert not [call for call in calls(tools) if call[1] in ("build", "push")]
    assert image("--name", "registry.example/team/headrace", "--push", "--tag", "1").exit_code == 0
    assert [call[1] for call in calls(tools)][-2:] == ["build", "push"]  # a tag of one's own tells nothing


def test_docker_that_names_no_digest_is_reported(tools: Path) -> None:
    put(tools, "docker")
    (tools / "calls.quiet").touch()
    with pytest.raises(RunError, match=r"no digest:\n.*`docker manifest inspect .*registry"):
        Builder("docker", lambda _: None).push(REFERENCE)


def test_push_needs_a_registry(tools: Path) -> None:
    done = image("--push")
    assert done.exit_code == 2
    assert "--push needs --name with a registry" in done.stderr
    assert "as --tag" in image("--name", "localhost:5000/headrace:1").stderr


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["--name", "registry.example/Team/headrace"], "a repository has lowercase letters"),
        (["--name", "registry.example:5000//headrace"], "a repository has lowercase letters"),
        (["--name", "Headrace"], "a repository has lowercase letters"),
        (["--tag", "of today"], "--tag of today: at most 128 letters"),
        (["--tag", ".1"], "--tag .1: at most 128 letters"),
    ],
)
def test_name_that_no_tool_takes_is_refused_before_anything_is_built(arguments: list[str], reported: str) -> None:
    done = image(*arguments)
    assert done.exit_code == 2
    assert reported in done.stderr


@pytest.mark.slow
def test_names_that_tools_take_are_taken(tools: Path) -> None:
    for name in ("headrace", "localhost/headrace", "Registry.Example:5000/a/b-c/d__e.f", "127.0.0.1:5000/headrace"):
        done = image("--name", name, "--tag", "v1.2_x-3")
        assert (done.exit_code, "neither docker" in done.stderr) == (1, True)  # that far and no further


def test_registry_of_the_base_image_is_reported_when_building() -> None:
    error = builder_error(
        "buildah", "build", "base.example/python:3.11", ["Error: unauthorized: authentication required"]
    )
    assert "base.example does not let buildah pull " in str(error)
    assert "`buildah login base.example`" in str(error)


def test_last_of_several_tries_is_reported() -> None:
    tries = ["Failed, retrying in 1s ... Error: connection refused", "Error: the last: connection refused"]
    assert str(builder_error("podman", "push", REFERENCE, tries)).endswith(
        "cannot be reached: Error: the last: connection refused"
    )


REAL = {
    "podman, not logged in": (
        "Error: trying to reuse blob sha256:7f06 at destination: checking whether a blob sha256:7f06 exists in "
        "registry.example/team/headrace: unauthorized: authentication required",
        ServerError,
        "registry.example does not let podman push .*\n.*`podman login registry.example`",
    ),
    "docker, no right to push": (
        "denied: requested access to the resource is denied",
        ServerError,
        "does not let docker push",
    ),
    "docker, not logged in": ("no basic auth credentials", ServerError, "`docker login registry.example`"),
    "disk full": (
        "write /opt/venv/lib/libtensorflow_cc.so.2: no space left on device",
        RunError,
        "the disk is full: .*\n  `docker system prune`",
    ),
    "registry is away": (
        'Get "https://registry.example/v2/": dial tcp: lookup registry.example: no such host',
        ServerError,
        "registry.example cannot be reached: .*no such host",
    ),
    "podman, a registry without TLS": (
        'pinging container registry registry.example: Get "https://registry.example/v2/": http: server gave HTTP '
        "response to HTTPS client",
        ServerError,
        "registry.example uses plain HTTP.*\n.*registries.conf",
    ),
    "anything else": ("the sky has fallen", RunError, "docker push failed:\n  Pushing\n  the sky has fallen"),
}


@pytest.mark.parametrize("case", REAL)
def test_failure_of_a_tool_is_reported_with_the_way_out(case: str) -> None:
    line, kind, reported = REAL[case]
    tool = "podman" if case.startswith("podman") else "docker"
    error: HeadraceError = builder_error(tool, "push", REFERENCE, ["Pushing", line])
    assert type(error) is kind
    with pytest.raises(kind, match=reported):
        raise error


@pytest.mark.parametrize(
    ("reference", "host"),
    [
        ("headrace:1", "docker.io"),
        ("team/headrace:1", "docker.io"),
        ("localhost/headrace", "localhost"),
        ("localhost:5000/headrace:1", "localhost:5000"),
        ("eu.registry.example/a/b/headrace@sha256:00", "eu.registry.example"),
    ],
)
def test_host_is_read_off_a_name_as_the_tools_do(reference: str, host: str) -> None:
    assert registry(reference) == host
