"""Where things are kept between runs says nothing of what a component makes, so it is no part of its cache key."""

import json
from typing import Any

from tfx.components.trainer.executor import GenericExecutor

from headrace.pipeline.plan import Node


def digest(**custom_config: Any) -> str:
    properties = {"run_fn": "headrace.trainer.run.run_fn", "custom_config": json.dumps(custom_config)}
    return Node("Trainer", "Trainer", GenericExecutor, properties, {}, {}, ()).digest


def test_folder_and_settings_of_the_checkpoints_are_not_keyed_and_all_else_is() -> None:
    first = digest(config="{}", checkpoints="/here/checkpoints")
    assert digest(config="{}", checkpoints="/there/checkpoints") == first
    assert digest(config="{}", checkpoint='{"keep": 5}') == first
    assert digest(config="{}") == first
    assert digest(config='{"a": 1}', checkpoints="/here/checkpoints") != first
