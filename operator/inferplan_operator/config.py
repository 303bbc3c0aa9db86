"""The operator's configuration file: what the chart's ConfigMap holds, read once at start.

Everything has a default, so the operator starts without a file. Errors name the field, the value and what would work.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from inferplan.errors import InvalidInput, UnknownGPU
from inferplan.hardware import resolve_gpu
from inferplan.planning import Defaults

DEFAULT_PORT = 8080

_BUILT_IN = Defaults()


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class PrometheusConfig(_Section):
    """Where measured figures are read; empty: no measuring."""

    url: str = Field(default="", pattern=r"^(https?://\S+)?$")


class Toleration(_Section):
    """A pod toleration, as Kubernetes spells it."""

    key: str = ""
    operator: Literal["Exists", "Equal"] = "Exists"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


class DefaultsConfig(_Section):
    """What a plan runs with where it says nothing itself."""

    image: str = Field(default=_BUILT_IN.image, min_length=1)
    engine_version: str = Field(default=_BUILT_IN.engine_version, min_length=1)
    tolerations: tuple[Toleration, ...] = tuple(
        Toleration.model_validate({"key": key, "operator": operator, "value": value, "effect": effect})
        for key, operator, value, effect in _BUILT_IN.tolerations
    )


class OperatorConfig(_Section):
    """The whole file. `prices`: GPU type → USD per GPU-hour; they win over list prices and below GPUProfiles.

    `hub`: `auto` asks the hub and falls back to the bundled catalogue, `never` asks it, `always` insists on it.
    `inventory`: `Nodes` plans with what the cluster has, `Any` with every GPU type (clusters that scale from zero).
    `port` None: 8080, or a free port where that is taken; a port that is named here must be free.
    """

    prometheus: PrometheusConfig = PrometheusConfig()
    watch_namespaces: tuple[Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")], ...] = ()
    defaults: DefaultsConfig = DefaultsConfig()
    prices: dict[str, Annotated[Decimal, Field(gt=0, le=10_000)]] = {}
    price_date: date | None = None
    inventory: Literal["Nodes", "Any"] = "Nodes"
    require_gates: bool = True
    hub: Literal["auto", "never", "always"] = "auto"
    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def planning_defaults(self) -> Defaults:
        tolerations = tuple((t.key, t.operator, t.value, t.effect) for t in self.defaults.tolerations)
        return Defaults(self.defaults.image, self.defaults.engine_version, tolerations)


def load_config(path: Path | None) -> OperatorConfig:
    """The configuration in a YAML file; the built-in one without a file. Raises InvalidInput."""
    if path is None:
        return OperatorConfig()
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"--config {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise InvalidInput(f"--config {path}: not YAML: {error}") from error
    if content is not None and not isinstance(content, dict):
        raise InvalidInput(f"--config {path}: a mapping of fields is needed, got {type(content).__name__}")
    try:
        config = OperatorConfig.model_validate(content or {})
        for name in config.prices:
            resolve_gpu(name)
    except ValidationError as error:
        raise InvalidInput(f"--config {path}: {_explain(error)}") from error
    except UnknownGPU as error:
        raise InvalidInput(f"--config {path}: prices: {error.message}") from error
    return config


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        *section, name = (str(part) for part in problem["loc"])
        field = ".".join([*section, name])
        if problem["type"] == "extra_forbidden":
            known = _FIELDS.get(section[-1] if section else "", ())
            lines.append(f"unknown field {field!r}; known here: {', '.join(known)}")
        else:
            lines.append(f"{field} = {problem['input']!r}: {problem['msg']}")
    return "; ".join(lines)


def _aliases(model: type[_Section]) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in model.model_fields.items())


# Section name as written in the file → the fields it knows ("": the top level; a list's items carry their index).
_FIELDS = {
    "": _aliases(OperatorConfig),
    "prometheus": _aliases(PrometheusConfig),
    "defaults": _aliases(DefaultsConfig),
    **{str(index): _aliases(Toleration) for index in range(16)},
}
