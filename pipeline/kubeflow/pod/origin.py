"""What a model on Kubeflow was made from: a record that the Trainer's pod writes beside the model.

    <the pipeline's folder>/<run>/trainer/<salt>/lineage.json     next to `model/`, with `config.yaml`

A pod gets the URIs of its inputs, but not of what those were made from, and not every Kubeflow keeps ML Metadata. So
the metadata of each output of a task names the artifacts upstream of it, which the next task adds to. What only the
machine that compiled knows travels in an environment variable of the Trainer, which is not in the cache key: the same
work at another commit is still taken from the cache, and its record says where it was first done.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel

from headrace.common.checksums import with_checksum
from headrace.components.contents import CONTENTS
from headrace.pipeline.kubeflow.document import ORIGIN
from headrace.pipeline.kubeflow.pod.invocation import unpack
from headrace.pipeline.kubeflow.pod.paths import sibling
from headrace.pipeline.kubeflow.store import Store

if TYPE_CHECKING:
    from tfx.types import Artifact

logger = logging.getLogger(__name__)

FILE = "lineage.json"
CONFIG_FILE = "config.yaml"
"""The config next to it, as a local run has it in its folder."""
SPANS_FILE = "spans.json"
"""On a shared volume, the spans that ExampleGen read, next to its examples. In an object store the launcher copies
them, as the RECORD of Spans."""
MADE_FROM = "headrace_made_from"
"""Custom property of an artifact: what is upstream of it, as JSON, by path below the pipeline's folder."""
_KEPT = {"contents": CONTENTS, "rows": "rows", "fingerprint": "input_fingerprint"}
_LEFT_OUT = ("dropped", "gaps", "rounded")
"""Properties of examples that say what the data lacks, which pages show."""


class Compiled(BaseModel, frozen=True, extra="ignore"):
    """What was known when the pipeline was compiled.

    commit, dirty: of the folder of the config, as a local run records them; config: as YAML, with all overrides
    applied, None if it is too long for a variable; code: a digest of what the modules of the Trainer and of the
    components before it do, as of a local run.
    """

    commit: str | None = None
    dirty: bool = False
    config: str | None = None
    code: str


class Upstream(BaseModel, frozen=True, extra="ignore"):
    """An artifact that a model was made from. rows: of examples, by split; fingerprint: of what was read; left_out:
    properties of examples about records, rows, spans and digits that they lack, as a run's record has them.
    """

    contents: str | None = None
    rows: dict[str, int] = {}
    fingerprint: str | None = None
    left_out: dict[str, str | int] = {}


class ModelOrigin(BaseModel, frozen=True, extra="ignore"):
    """The record of a model. All paths are relative to the pipeline's folder.

    Attributes:
        run: Id of the run that trained it.
        written: When, in ISO 8601.
        compiled: What the machine that compiled the pipeline knew; None of a pipeline compiled by an earlier version.
        packages: What is installed in the image: distribution to version.
        contents: Checksum of the model's files.
        upstream: The artifacts that it was made from, by path.
        started_from: The model whose weights the training started from.
        parameters: The run's own values of settings of the training.
    """

    run: str
    written: str
    compiled: Compiled | None = None
    packages: dict[str, str] = {}
    contents: str | None = None
    upstream: dict[str, Upstream] = {}
    started_from: str | None = None
    parameters: dict[str, str | int] = {}

    @classmethod
    def read(cls, uri: str, store: Store) -> Self | None:
        """The record at a URI; None if there is none. Raises RunError if it is damaged."""
        try:
            what = "the record of what a model was made from"
            return store.record(uri, cls, what, "the model is then listed without it.")
        except FileNotFoundError:
            return None

    def write(self, uri: str, store: Store) -> None:
        """Write the record. A failure is reported and costs no training: the model is then listed without a record."""
        try:
            if self.compiled is not None and self.compiled.config is not None:
                store.write(sibling(uri, CONFIG_FILE), self.compiled.config)
            store.write(uri, with_checksum(self.model_dump_json()))
        except OSError as error:
            logger.warning(f"{uri} could not be written, so `headrace lineage` will not know this model: {error}")


def upstream_of(inputs: Iterable[tuple[str, Artifact]]) -> dict[str, Upstream]:
    """Artifacts, by path below the pipeline's folder, and all that is upstream of them."""
    found: dict[str, Upstream] = {}
    for path, artifact in inputs:
        kept = {name: artifact.get_string_custom_property(key) or None for name, key in _KEPT.items()}
        rows = json.loads(kept["rows"] or "{}")
        found |= _parsed(artifact.get_string_custom_property(MADE_FROM))
        found[path] = Upstream(
            contents=kept["contents"], rows=rows, fingerprint=kept["fingerprint"], left_out=_left_out(artifact)
        )
    return found


def _left_out(artifact: Artifact) -> dict[str, str | int]:
    """Without the messages about single records, which may quote them."""
    found = {name: _value(artifact, name) for name in _LEFT_OUT if artifact.has_custom_property(name)}
    if skipped := artifact.get_string_custom_property("skipped"):
        found["skipped"] = json.dumps({"count": json.loads(skipped)["count"]})
    return found


def _value(artifact: Artifact, name: str) -> str | int:
    text: str = artifact.get_string_custom_property(name)
    return text or int(artifact.get_int_custom_property(name))


def to_property(upstream: Mapping[str, Upstream]) -> str:
    """The value of MADE_FROM."""
    return json.dumps({path: one.model_dump(exclude_defaults=True) for path, one in upstream.items()}, sort_keys=True)


def compiled_in(environ: Mapping[str, str]) -> Compiled | None:
    """What the variable ORIGIN of this pod says."""
    text = environ.get(ORIGIN)
    return None if text is None else Compiled.model_validate_json(unpack(text))


def now() -> str:
    """The time in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _parsed(text: str) -> dict[str, Upstream]:
    try:
        return {path: Upstream.model_validate(one) for path, one in json.loads(text or "{}").items()}
    except (ValueError, AttributeError):
        return {}  # of another version
