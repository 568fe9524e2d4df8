"""Configs as README, docs and overlays have them: profiles of the taxi example and what goes with them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml
from compiled_trips import ROOT, invocations, needs_kubernetes, store_keys

from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline


def readmes_config(folder: Path) -> PipelineConfig:
    """The taxi example with what the README says to put into the config for Kubeflow, and no more."""
    (line,) = re.findall(r"in the config \(`(kubeflow: \{.*\})`\)", (ROOT / "README.md").read_text())
    shutil.copy(ROOT / "configs" / "taxi.yaml", folder)
    (folder / "taxi.readme.yaml").write_text(line.replace("image: ...", "image: registry.example/headrace:1"))
    return load(folder / "taxi.yaml", "readme")


@pytest.mark.slow
@needs_kubernetes
def test_pods_of_the_readmes_config_have_the_keys_and_the_address_of_kubeflows_own_store(tmp_path: Path) -> None:
    found = readmes_config(tmp_path)
    own = "mlpipeline-minio-artifact"  # as Kubeflow's launcher takes it, and kubernetes/overlays/small says
    keys = {"HEADRACE_STORE_ACCESS_KEY": (own, "accesskey"), "HEADRACE_STORE_SECRET_KEY": (own, "secretkey")}
    reaching = ("baseline", "evaluator", "pusher", "record-blessing", "trainer")
    assert store_keys(found) == {f"exec-{name}": keys for name in reaching}
    reported = invocations(next(yaml.safe_load_all(compile_pipeline(found, {}))))
    assert {one.store["minio"] for one in reported.values()} == {"http://seaweedfs.kubeflow:9000"}
    launcher = yaml.safe_load((ROOT / "kubernetes/overlays/small/launcher.yaml").read_text())["data"]
    assert launcher["defaultPipelineRoot"] == found.kubeflow.pipeline_root
    (provider,) = yaml.safe_load(launcher["providers"]).values()
    by_launcher = provider["default"]["credentials"]["secretRef"]
    assert by_launcher == {"secretName": own, "accessKeyKey": "accesskey", "secretKeyKey": "secretkey"}


OVERLAYS = {"kubeflow": "small", "cloud": "cloud"}
"""Profile of the taxi example to the overlay that it goes with."""


@needs_kubernetes
@pytest.mark.parametrize("profile", OVERLAYS)
def test_profiles_of_the_taxi_example_fit_the_overlay_that_they_go_with(profile: str) -> None:
    found = load(ROOT / "configs" / "taxi.yaml", profile)
    settings = found.kubeflow
    overlay = ROOT / "kubernetes" / "overlays" / OVERLAYS[profile]
    assert settings.namespace == yaml.safe_load((overlay / "kustomization.yaml").read_text())["namespace"]
    reported = yaml.safe_load((overlay / "launcher.yaml").read_text())["data"]
    ((scheme, provider),) = yaml.safe_load(reported["providers"]).items()
    assert settings.pipeline_root == reported["defaultPipelineRoot"]
    assert settings.pipeline_root.startswith(f"{scheme}://")
    assert settings.store_secret == provider["default"]["credentials"].get("secretRef", {}).get("secretName")
    assert settings.object_store.region in (None, provider["default"]["region"])
    objects = yaml.safe_load_all((ROOT / "kubernetes" / "base" / "runner.yaml").read_text())
    accounts = [one["metadata"]["name"] for one in objects if one["kind"] == "ServiceAccount"]
    assert [settings.server.service_account] == accounts
    assert bool(store_keys(found)) == (profile == "kubeflow")  # compiles it
    assert set(settings.model_dump(exclude_defaults=True)) <= {
        "image", "namespace", "pipeline_root", "object_store", "server",
    }  # fmt: skip


def test_there_is_an_overlay_for_each_profile() -> None:
    profiles = {path.stem.removeprefix("taxi.") for path in (ROOT / "configs").glob("taxi.*.yaml")}
    assert profiles == set(OVERLAYS)
    assert set(OVERLAYS.values()) == {path.name for path in (ROOT / "kubernetes" / "overlays").iterdir()}


@pytest.mark.slow
@needs_kubernetes
def test_the_schedule_of_the_docs_fits_the_taxi_example_as_it_is(tmp_path: Path) -> None:
    docs = (ROOT / "docs" / "kubeflow.md").read_text()
    schedules = re.findall(r"(?m)^    schedule:\n(?:      .*\n)+", docs)
    assert len(schedules) == 2  # the plain one, and the one that trains only where there is a reason to
    shutil.copy(ROOT / "configs" / "taxi.yaml", tmp_path)
    for text in schedules:
        (tmp_path / "taxi.docs.yaml").write_text(f"{text}    kubeflow: {{image: 'registry.example/headrace:1'}}\n")
        found = load(tmp_path / "taxi.yaml", "docs")
        assert found.schedule is not None
        assert compile_pipeline(found, {})
