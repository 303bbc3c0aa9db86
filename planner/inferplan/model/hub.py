"""A model by name → ModelFacts. The only code of this room that reads files or the network.

Order: a directory with config.json; the hub (revision → commit SHA, config.json and safetensors headers only, never
weights); the bundled catalogue. `never` skips the hub, `always` insists on it, `auto` falls back to the catalogue
where the hub can't answer, and says so (RevisionUnpinned).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from inferplan.errors import (
    HubUnavailable,
    InferPlanError,
    InvalidInput,
    InvalidModelConfig,
    ModelError,
    ModelGated,
    ModelNotFound,
)
from inferplan.model.architecture import Architecture
from inferplan.model.facts import ModelFacts
from inferplan.model.parse import parse_architecture
from inferplan.model.size import checkpoint_parameters

if TYPE_CHECKING:
    from huggingface_hub import HfApi

HubMode = Literal["auto", "never", "always"]

_MODEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")
_MAX_CONFIG_BYTES = 4 * 2**20
# A planner that hangs is worse than one that says it used the catalogue.
_TIMEOUT_SECONDS = 10.0
_TRIES = 3
_COUNT_TOLERANCE = 0.02


def resolve_model(
    name: str, revision: str | None = None, *, hub: HubMode = "auto", token: str | None = None
) -> ModelFacts:
    """What a name stands for. Raises InvalidInput, ModelNotFound, ModelGated, HubUnavailable or a parser's error."""
    directory = Path(name)
    if _looks_like_path(name):
        return _from_directory(directory)
    if not _MODEL_ID.fullmatch(name) or ".." in name:
        raise InvalidInput(f"model {name!r} is no hub id (like Qwen/Qwen3-8B) and no directory with a config.json")
    if hub == "never":
        return _from_catalogue(name, revision)
    try:
        return _from_hub(name, revision, token)
    except (HubUnavailable, ModelGated) as error:
        if hub == "always" or name not in bundled_models():
            raise
        return _from_catalogue(name, revision, why=error)


def bundled_models() -> tuple[str, ...]:
    """Ids of the bundled catalogue."""
    return tuple(_bundle())


@lru_cache(maxsize=1)
def _bundle() -> dict[str, Any]:
    text = (resources.files("inferplan.model") / "data" / "models.json").read_text(encoding="utf-8")
    models: dict[str, Any] = json.loads(text)["models"]
    return models


def _looks_like_path(name: str) -> bool:
    return name.startswith(("/", "./", "../", "~")) or (Path(name) / "config.json").is_file()


@lru_cache(maxsize=512)
def _from_directory(directory: Path) -> ModelFacts:
    path = directory.expanduser() / "config.json"
    if not path.is_file():
        raise ModelNotFound(f"model {str(directory)!r}: no config.json there")
    extra = directory.expanduser() / "hf_quant_config.json"
    quant = _json_file(extra) if extra.is_file() else None
    architecture = parse_architecture(_json_file(path), quant)
    # The directory's name only: a recommendation must not depend on where a file lies.
    return ModelFacts(directory.name, "", "directory", architecture)


def _json_file(path: Path) -> Mapping[str, Any]:
    if path.stat().st_size > _MAX_CONFIG_BYTES:
        raise InvalidModelConfig(f"{path.name} is larger than {_MAX_CONFIG_BYTES} bytes")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InvalidModelConfig(f"{path.name} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidModelConfig(f"{path.name} holds no JSON object")
    return found


def _from_catalogue(name: str, revision: str | None, why: InferPlanError | None = None) -> ModelFacts:
    architecture = _bundled_architecture(name)
    reason = "the hub was not asked" if why is None else f"{why.code}: {why.message}"
    asked = f" (revision {revision!r} was asked for)" if revision else ""
    message = f"{name} is taken from the bundled catalogue, no commit is pinned{asked}; {reason}"
    return ModelFacts(name, "", "catalogue", architecture, warnings=(("RevisionUnpinned", message),))


@lru_cache(maxsize=512)
def _bundled_architecture(name: str) -> Architecture:
    entry = _bundle().get(name)
    if entry is None:
        import difflib

        near = difflib.get_close_matches(name, bundled_models(), n=3, cutoff=0.5)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise ModelNotFound(f"model {name!r} is not in the bundled catalogue and the hub was not asked{hint}")
    return parse_architecture(entry["config"], entry.get("hf_quant_config"))


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """What the hub says of a repository at one commit."""

    sha: str
    gated: bool
    config: Mapping[str, Any]
    quant_config: Mapping[str, Any] | None
    parameters: tuple[tuple[str, int], ...]


def _from_hub(name: str, revision: str | None, token: str | None) -> ModelFacts:
    found = _ask_hub(name, revision, token)
    architecture = parse_architecture(found.config, found.quant_config)
    facts = ModelFacts(name, found.sha, "hub", architecture, found.gated, found.parameters)
    return replace(facts, warnings=_count_warnings(facts))


def _count_warnings(facts: ModelFacts) -> tuple[tuple[str, str], ...]:
    """Says when the parameters counted from config.json and those in the checkpoint's headers disagree."""
    stored = sum(count for _, count in facts.safetensors_parameters)
    if not stored or facts.architecture.quantization is not None:
        return ()
    counted = checkpoint_parameters(facts.architecture)
    difference = counted / stored - 1
    if abs(difference) <= _COUNT_TOLERANCE:
        return ()
    message = f"config.json implies {counted:,} parameters, the checkpoint holds {stored:,} ({difference:+.1%})"
    return (("WeightCountMismatch", message),)


def _ask_hub(name: str, revision: str | None, token: str | None) -> _Checkpoint:
    """Ask with bounded tries. Errors of the client become ours, told apart."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub import errors as hub_errors

    if constants.HF_HUB_OFFLINE:
        raise HubUnavailable("the hub is switched off here (HF_HUB_OFFLINE)")
    api = HfApi(token=token)
    problem: Exception | None = None
    for _ in range(_TRIES):
        try:
            return _read_checkpoint(api, name, revision)
        except hub_errors.GatedRepoError as error:
            message = f"{name} is gated: name a token with access to it (spec.model.tokenSecretRef or HF_TOKEN)"
            raise ModelGated(message) from error
        except hub_errors.RevisionNotFoundError as error:
            raise ModelNotFound(f"{name} has no revision {revision!r} on the hub") from error
        except hub_errors.EntryNotFoundError as error:
            raise ModelNotFound(f"{name} has no config.json on the hub") from error
        except hub_errors.RepositoryNotFoundError as error:
            message = f"{name} is not on the hub (or private: name a token, spec.model.tokenSecretRef or HF_TOKEN)"
            raise ModelNotFound(message) from error
        except ModelError:
            raise
        except hub_errors.HfHubHTTPError as error:
            problem = error
            if error.response.status_code < 500:
                break
        except (OSError, ValueError) as error:
            problem = error
            break
        except Exception as error:  # noqa: BLE001  (the client's transport has its own exception tree)
            problem = error
            break
    raise HubUnavailable(f"the hub can't be asked for {name}: {_short(problem)}") from problem


def _short(error: Exception | None) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__


def _read_checkpoint(api: HfApi, name: str, revision: str | None) -> _Checkpoint:
    from huggingface_hub import errors as hub_errors

    info = api.model_info(name, revision=revision, timeout=_TIMEOUT_SECONDS)
    sha = info.sha or ""
    files = {s.rfilename for s in info.siblings or ()}
    config = _hub_json(api, name, sha, "config.json")
    quant = _hub_json(api, name, sha, "hf_quant_config.json") if "hf_quant_config.json" in files else None
    try:
        metadata = api.get_safetensors_metadata(name, revision=sha)
        counts = tuple(sorted(metadata.parameter_count.items()))
    except (hub_errors.NotASafetensorsRepoError, hub_errors.SafetensorsParsingError):
        counts = ()
    return _Checkpoint(sha, bool(info.gated), config, quant, counts)


def _hub_json(api: HfApi, name: str, sha: str, file: str) -> Mapping[str, Any]:
    path = api.hf_hub_download(name, file, revision=sha, etag_timeout=_TIMEOUT_SECONDS)
    return _json_file(Path(path))
