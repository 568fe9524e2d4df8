"""`model:` what is trained. One class, in a file of its own, for each kind; `kind:` chooses it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from headrace.configs.models.base import ModelBase
from headrace.configs.models.dcn import DcnModel
from headrace.configs.models.dnn import DnnModel
from headrace.configs.models.image import AugmentConfig, BackboneConfig, ImageModel
from headrace.configs.models.own import OWN, OwnModel
from headrace.configs.models.text import TextModel
from headrace.configs.models.wide_and_deep import WideAndDeepModel

__all__ = [
    "DEFAULT_KIND",
    "OWN",
    "AugmentConfig",
    "BackboneConfig",
    "DcnModel",
    "DnnModel",
    "ImageModel",
    "ModelBase",
    "ModelConfig",
    "OwnModel",
    "TextModel",
    "WideAndDeepModel",
]

DEFAULT_KIND = "wide_and_deep"
"""The kind of a model that does not say its own."""


def _tag(model: object) -> str | None:
    """Which class a model is of: its kind, or OWN for a dotted path."""
    kind = model.get("kind", DEFAULT_KIND) if isinstance(model, dict) else getattr(model, "kind", None)
    if not isinstance(kind, str):
        return None
    return OWN if "." in kind else kind


ModelConfig = Annotated[
    Annotated[DnnModel, Tag("dnn")]
    | Annotated[WideAndDeepModel, Tag("wide_and_deep")]
    | Annotated[DcnModel, Tag("dcn")]
    | Annotated[ImageModel, Tag("image")]
    | Annotated[TextModel, Tag("text")]
    | Annotated[OwnModel, Tag(OWN)],
    Field(discriminator=Discriminator(_tag), json_schema_extra={"discriminator": {"propertyName": "kind"}}),
]
