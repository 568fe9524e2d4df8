"""`train.optimizer`, `train.clip`: what is done with the gradients."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue, model_validator

from headrace.configs.section import Name, Section

Positive = Annotated[float, Field(gt=0)]


class OptimizerConfig(Section):
    """An optimizer with arguments of its own: `{kind: adamw, weight_decay: 0.01}`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    kind: Name
    """A Keras optimizer, by name, or the dotted path of your own. All other settings are arguments of the optimizer,
    under Keras' names; the learning rate, clipping and accumulation have settings of their own in `train:`."""

    @property
    def arguments(self) -> dict[str, JsonValue]:
        """The settings beside `kind`."""
        return dict(self.__pydantic_extra__)

    @property
    def is_own(self) -> bool:
        """Whether `kind` is a dotted path."""
        return "." in self.kind


def optimizer_config(optimizer: str | OptimizerConfig) -> OptimizerConfig:
    """`train.optimizer` in its long form."""
    return OptimizerConfig(kind=optimizer) if isinstance(optimizer, str) else optimizer


class ClipConfig(Section):
    """How long a gradient may be; exactly one of the settings. With accumulation the mean gradient is clipped."""

    norm: Positive | None = None
    """Each weight's gradient is shortened to this length (L2) if it is longer."""
    global_norm: Positive | None = None
    """All gradients together are shortened to this length (L2) if they are longer."""
    value: Positive | None = None
    """Each number of a gradient is brought between minus this and this."""

    @model_validator(mode="after")
    def _one_way(self) -> ClipConfig:
        given = [name for name in ("norm", "global_norm", "value") if getattr(self, name) is not None]
        if len(given) != 1:
            found = f"got {' and '.join(given)}" if given else "got none"
            raise ValueError(f"needs exactly one of `norm`, `global_norm` and `value`; {found}")
        return self
