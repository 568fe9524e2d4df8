"""Commands that register what is in a folder on this machine: two at once, and one that only predicts."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from model_registry import Registry, model_registry

from headrace.components.stored_models.blessed_record import Entry
from headrace.components.stored_models.push_record import PushRecord
from headrace.configs.config import PipelineConfig
from headrace.pipeline.api import load
from headrace.pipeline.api.running import register_after_run, register_versions
from headrace.pipeline.folders import Folders


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pushed(home: Path, registry: Registry, **more: Any) -> PipelineConfig:
    """A pipeline with one version in its folder."""
    config = load(
        {
            "pipeline": {"name": "parcels"},
            "data": {"source": {"kind": "csv", "path": "parcels.csv"}},
            "label": {"key": "late", "kind": "binary"},
            "features": {"distance": {"column": "numeric"}},
            "deploy": {"registry": {"kubeflow": {"url": registry.url}}},
            **more,
        }
    )
    version, folders = home / "serving" / "parcels" / "17", Folders.of(config)
    version.mkdir(parents=True)
    folders.home.mkdir(parents=True)
    (version / "saved_model.pb").write_bytes(b"model")
    PushRecord().write(folders.push_record, Entry(uri=str(home / "model"), blessed_at="2026-03-01"), version)
    return config


@pytest.mark.slow
def test_commands_that_end_at_the_same_time_register_a_version_once(home: Path) -> None:
    with model_registry() as registry, ThreadPoolExecutor(2) as commands:
        config = pushed(home, registry)
        registry.both = threading.Barrier(2)
        outcomes = [one for found in commands.map(register_versions, [config, config]) for one in found]
        assert [one.error for one in outcomes] == [None, None]
        assert sorted(one.added for one in outcomes) == [(), (17,)]
        assert registry.texts("parcels", "headrace.state") == {"17": "in_service"}


def test_run_that_only_predicts_registers_nothing(home: Path) -> None:
    predict = {"source": {"kind": "csv", "path": "new.csv"}, "output": "scored.csv", "only": True}
    with model_registry() as registry:
        config = pushed(home, registry, predict=predict)
        assert register_after_run(config) == []
        assert not registry.requests
        assert [one.added for one in register_versions(config)] == [(17,)]  # as after a rollback
