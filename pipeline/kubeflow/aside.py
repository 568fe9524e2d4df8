"""Settings that change nothing of what a component makes, and so must not be in its cache key: they reach the pod in an
environment variable. Kubeflow makes the key from image, arguments, parameters and inputs, and leaves variables out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.configs.checkpoint import KEPT_HOW

VARIABLE = "HEADRACE_ASIDE"
"""Environment variable of a pod: what belongs into its component's `custom_config`, as JSON."""
NAMES = (KEPT_HOW,)
_WITHIN = "custom_config"


def set_aside(properties: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The properties without those settings, and the settings."""
    custom = json.loads(properties.get(_WITHIN) or "{}") or {}
    aside = {name: custom.pop(name) for name in NAMES if name in custom}
    return {**properties, **({_WITHIN: json.dumps(custom)} if aside else {})}, aside


def put_back(properties: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The properties with what the environment holds of them."""
    if not environ.get(VARIABLE) or _WITHIN not in properties:
        return dict(properties)
    custom = {**json.loads(properties[_WITHIN]), **json.loads(environ[VARIABLE])}
    return {**properties, _WITHIN: json.dumps(custom)}
