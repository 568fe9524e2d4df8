"""Building behind a proxy that inspects TLS: `headrace image --ca`, and what pip and uv then trust."""

from __future__ import annotations

import datetime as dt
import json
import os
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headrace.pipeline.image.errors import builder_error
from headrace.pipeline.verbs.image import image as verb

IMAGE = Path(__file__).parents[3] / "image"
TOOL = f"""\
#!{sys.executable}
import json, pathlib, shutil, sys
here = pathlib.Path(__file__).parent
call = sys.argv[1:]
authority = pathlib.Path(call[call.index("--cert-dir") + 1], "ca.crt").read_text() if "--cert-dir" in call else ""
reported = {{"call": call, "authority": authority}}
if call[0] == "build":
    reported["staged"] = pathlib.Path(call[-1], "image", "ca.txt").read_text()
with open(here / "calls", "a") as file:
    file.write(json.dumps(reported) + "\\n")
if "--digestfile" in call:
    pathlib.Path(call[call.index("--digestfile") + 1]).write_text("sha256:" + "ab" * 32)
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of an authority; `server.pem` beside it has a key and a certificate for localhost by it."""
    folder = tmp_path_factory.mktemp("authority")
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "proxy")])
    now = dt.datetime.now(dt.UTC)

    def made(subject: x509.Name, public: ec.EllipticCurvePublicKey, *, ca: bool) -> bytes:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(name).public_key(public)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - dt.timedelta(days=1))
        builder = builder.not_valid_after(now + dt.timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    own = ec.generate_private_key(ec.SECP256R1())
    forms = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    (folder / "server.pem").write_bytes(own.private_bytes(*forms) + made(subject, own.public_key(), ca=False))
    (folder / "ca.pem").write_bytes(made(name, key.public_key(), ca=True))
    return folder / "ca.pem"


@pytest.fixture(scope="module")
def index(authority: Path) -> Iterator[str]:
    """An index of packages without any, by TLS."""

    class Nothing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("localhost", 0), Nothing) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.with_name("server.pem"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"https://localhost:{server.server_port}/simple"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["pip download --retries 0 --no-deps", "uv pip install --dry-run --no-deps"])
def test_pip_and_uv_trust_the_authority_when_building_and_not_without_it(
    tool: str, index: str, authority: Path, tmp_path: Path
) -> None:
    (tmp_path / "apt").mkdir()
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TRUSTED": str(tmp_path / "trusted"),
        "APT_CONFIGURATION": str(tmp_path / "apt"),
        "SOURCE_DATE_EPOCH": "315619200",
        "VIRTUAL_ENV": sys.prefix,
    }
    command = ["sh", "-euc", f". {IMAGE}/trust.sh; {tool} --index-url {index} no-such-package-of-the-test"]
    said = []
    for text in ("", authority.read_text(encoding="utf-8")):
        (tmp_path / "ca.txt").write_text(text)
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode, done.stdout
        said.append(done.stdout + done.stderr)
    assert any(word in said[0] for word in ("CERTIFICATE_VERIFY_FAILED", "UnknownIssuer"))
    assert not any(word in said[1].lower() for word in ("certificate", "issuer", "ssl"))
    assert "no-such-package-of-the-test" in said[1]
    bundle = tmp_path / "trusted" / "bundle.pem"
    assert bundle.read_text().count("BEGIN CERTIFICATE") > 50  # the public ones too
    assert bundle.read_text().endswith(authority.read_text(encoding="utf-8"))
    assert (tmp_path / "apt" / "99-headrace-ca").read_text() == f'Acquire::https::CAInfo "{bundle}";\n'


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("docker", "buildah", "skopeo"):
        (folder / name).write_text(TOOL)
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(folder))
    return folder / "calls"


@pytest.mark.slow
def test_the_authority_goes_to_the_build_and_the_registry_and_stays_out_of_the_image(
    tools: Path, authority: Path
) -> None:
    name = ("--name", "registry.example/headrace")
    reported = []
    for options in ((), ("--ca", str(authority)), ("--ca", str(authority), "--ca-in-image")):
        tools.unlink(missing_ok=True)
        done = CliRunner().invoke(verb, [*name, "--builder", "buildah", "--push", *options])
        assert done.exit_code == 0, done.output
        reported.append([json.loads(line) for line in tools.read_text(encoding="utf-8").splitlines()])
    plain, trusting, within = (next(one for one in calls if one["call"][0] == "build") for calls in reported)
    assert (plain["staged"], plain["authority"]) == ("", "")
    assert authority.read_text(encoding="utf-8").strip() == trusting["staged"].strip() == within["staged"].strip()
    for calls in reported[1:]:
        asked = {one["call"][0]: one["authority"] for one in calls}
        assert asked == dict.fromkeys(("inspect", "build", "push"), authority.read_text(encoding="utf-8"))
    tags = [one["call"][one["call"].index("-t") + 1] for one in (plain, trusting, within)]
    assert tags[0] == tags[1] != tags[2]
    assert ["CA=with" in one["call"] for one in (plain, trusting, within)] == [False, False, True]


def test_docker_is_given_no_folder_of_certificates_as_its_daemon_asks_registries(tools: Path, authority: Path) -> None:
    done = CliRunner().invoke(verb, ["--builder", "docker", "--ca", str(authority)])
    assert done.exit_code == 0, done.output
    calls = [json.loads(line) for line in tools.read_text(encoding="utf-8").splitlines()]
    assert not any("--cert-dir" in one["call"] for one in calls)
    assert calls[-1]["staged"].strip() == authority.read_text(encoding="utf-8").strip()


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (b"0\x82\x03\x01", "no PEM certificate"),
        (b"-----BEGIN EC PRIVATE KEY-----\nMHc=\n-----END EC PRIVATE KEY-----\n", "private key"),
    ],
)
def test_a_file_that_is_not_a_certificate_is_refused_before_anything_is_built(
    tools: Path, tmp_path: Path, content: bytes, reported: str
) -> None:
    (tmp_path / "ca").write_bytes(content)
    done = CliRunner().invoke(verb, ["--builder", "buildah", "--ca", str(tmp_path / "ca")])
    assert done.exit_code == 1
    assert reported in done.stderr
    assert not tools.exists()
    assert "--ca-in-image needs --ca FILE" in CliRunner().invoke(verb, ["--ca-in-image"]).stderr


@pytest.mark.parametrize(
    "line",
    [
        "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        "invalid peer certificate: UnknownIssuer",
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate in certificate chain",
    ],
)
def test_build_that_trusts_no_proxy_names_the_option(line: str) -> None:
    assert "headrace image --ca FILE" in str(builder_error("buildah", "build", "docker.io/library/python", [line]))
    assert "/etc/docker/certs.d/docker.io/ca.crt" in str(
        builder_error("docker", "build", "docker.io/library/python", [line])
    )
