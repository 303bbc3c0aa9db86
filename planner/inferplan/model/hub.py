"""A model by name → ModelFacts. The only code of this room that reads files or the network.

Order: a directory with config.json; the hub (revision → commit SHA, config.json and safetensors headers only, never
weights); the bundled catalogue. `never` skips the hub, `always` insists on it, `auto` falls back to the catalogue
where the hub can't answer or wants a token, and says so (RevisionUnpinned).

The hub is asked on a thread of its own and left behind when it keeps silent: name resolution and the client's own
retries know no deadline. Where the catalogue has the model, a sign of life is awaited for two seconds only.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from inferplan.errors import (
    HubUnavailable,
    InferPlanError,
    InvalidInput,
    InvalidModelConfig,
    ModelGated,
    ModelNotFound,
)
from inferplan.model.architecture import Architecture
from inferplan.model.facts import ModelFacts
from inferplan.model.parse import parse_architecture
from inferplan.model.quantization import unheeded_quantization
from inferplan.model.size import checkpoint_bytes, checkpoint_parameters

if TYPE_CHECKING:
    from huggingface_hub import HfApi

HubMode = Literal["auto", "never", "always"]

_MODEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")
_MAX_CONFIG_BYTES = 4 * 2**20
_REQUEST_SECONDS = 10.0
_TRIES = 3
_TRY_AGAIN_SECONDS = 0.2
_COUNT_TOLERANCE = 0.02
# Bytes of an element by the dtype's name in a safetensors header.
_STORED_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}


@dataclass(frozen=True, slots=True)
class _Patience:
    """How long the hub may take for its first answer, and for all of them."""

    first_seconds: float
    all_seconds: float


_WITH_FALLBACK = _Patience(2.0, 20.0)
_WITHOUT_FALLBACK = _Patience(_REQUEST_SECONDS, 60.0)


def resolve_model(
    name: str, revision: str | None = None, *, hub: HubMode = "auto", token: str | None = None
) -> ModelFacts:
    """What a name stands for. Raises InvalidInput, ModelNotFound, ModelGated, HubUnavailable or a parser's error."""
    return _resolve(name, revision, hub, token).facts


@dataclass(slots=True)
class ModelLookup:
    """`resolve_model` for one run over many cases: each model is asked for once, errors included.

    A hub that can't be asked is not waited for again where the catalogue has the model.
    """

    hub: HubMode
    _known: dict[tuple[str, str | None], ModelFacts | InferPlanError] = field(default_factory=dict)
    _hub_is_away: bool = False

    def facts(self, name: str, revision: str | None = None) -> ModelFacts:
        """As `resolve_model`; raises the same error each time."""
        key = (name, revision)
        if key not in self._known:
            self._known[key] = self._ask(name, revision)
        found = self._known[key]
        if isinstance(found, InferPlanError):
            raise found
        return found

    def _ask(self, name: str, revision: str | None) -> ModelFacts | InferPlanError:
        mode: HubMode = "never" if self.hub == "auto" and self._hub_is_away and name in _bundle() else self.hub
        try:
            found = _resolve(name, revision, mode, None)
        except InferPlanError as error:
            self._hub_is_away |= isinstance(error, HubUnavailable)
            return error
        self._hub_is_away |= isinstance(found.hub_error, HubUnavailable)
        return found.facts


@dataclass(frozen=True, slots=True)
class _Resolved:
    """`hub_error`: why the hub was fallen back from."""

    facts: ModelFacts
    hub_error: InferPlanError | None = None


def _resolve(name: str, revision: str | None, hub: HubMode, token: str | None) -> _Resolved:
    if _looks_like_path(name):
        return _Resolved(_from_directory(Path(name).expanduser()))
    if not is_hub_id(name):
        raise InvalidInput(f"model {name!r} is no hub id (like Qwen/Qwen3-8B) and no directory with a config.json")
    if hub == "never":
        return _Resolved(_from_catalogue(name, revision))
    fallback = hub == "auto" and name in _bundle()
    try:
        return _Resolved(_from_hub(name, revision, token, _WITH_FALLBACK if fallback else _WITHOUT_FALLBACK))
    except (HubUnavailable, ModelGated) as error:
        if not fallback:
            raise
        return _Resolved(_from_catalogue(name, revision, why=error), error)


def is_hub_id(name: str) -> bool:
    """Whether a name could be one of the hub's, and so no path."""
    return _MODEL_ID.fullmatch(name) is not None and ".." not in name


def bundled_models() -> tuple[str, ...]:
    """Ids of the bundled catalogue."""
    return tuple(_bundle())


@lru_cache(maxsize=1)
def _bundle() -> dict[str, str]:
    """Each bundled model's entry as text: one line of the file, read as JSON only when it is asked for."""
    text = (resources.files("inferplan.model") / "data" / "models.json").read_text(encoding="utf-8")
    entries = {}
    for line in text.split('"models": {\n', 1)[1].splitlines():
        name, colon, entry = line.partition(": ")
        if colon:
            entries[name.strip('"')] = entry.rstrip(",")
    return entries


def _looks_like_path(name: str) -> bool:
    return name.startswith(("/", "./", "../", "~")) or (Path(name) / "config.json").is_file()


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is now; another value once it has changed."""

    path: Path
    modified_ns: int
    size_bytes: int

    @classmethod
    def at(cls, path: Path) -> _File | None:
        """None where there is no such file."""
        if not path.is_file():
            return None
        found = path.stat()
        return cls(path, found.st_mtime_ns, found.st_size)


def _from_directory(directory: Path) -> ModelFacts:
    config = _File.at(directory / "config.json")
    if config is None:
        raise ModelNotFound(f"model {str(directory)!r}: no config.json there")
    quant_config = _File.at(directory / "hf_quant_config.json")
    architecture, warnings = _parsed(config, quant_config)
    # The directory's name only: a recommendation must not depend on where a file lies.
    return ModelFacts(directory.resolve().name, "", "directory", architecture, warnings=warnings)


@lru_cache(maxsize=512)
def _parsed(config: _File, quant_config: _File | None) -> tuple[Architecture, tuple[tuple[str, str], ...]]:
    fields, quantized = _json_file(config), _json_file(quant_config) if quant_config is not None else None
    return parse_architecture(fields, quantized), unheeded_quantization(fields, quantized)


def _json_file(file: _File) -> Mapping[str, Any]:
    if file.size_bytes > _MAX_CONFIG_BYTES:
        raise InvalidModelConfig(f"{file.path.name} is larger than {_MAX_CONFIG_BYTES} bytes")
    return _json_object(file.path.name, file.path.read_bytes())


def _json_object(name: str, content: bytes) -> Mapping[str, Any]:
    if len(content) > _MAX_CONFIG_BYTES:
        raise InvalidModelConfig(f"{name} is larger than {_MAX_CONFIG_BYTES} bytes")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidModelConfig(f"{name} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidModelConfig(f"{name} holds no JSON object")
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
    found = json.loads(entry)
    return parse_architecture(found["config"], found.get("hf_quant_config"))


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """What the hub says of a repository at one commit. `uncounted`: why `parameters` (per dtype) is empty."""

    sha: str
    gated: bool
    config: Mapping[str, Any]
    quant_config: Mapping[str, Any] | None
    parameters: tuple[tuple[str, int], ...]
    uncounted: str = ""


@dataclass(slots=True)
class _Asking:
    """One conversation with the hub: `reached` is set at the first answer of any kind, `done` at the end."""

    reached: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    found: _Checkpoint | None = None
    error: InferPlanError | None = None


def _from_hub(name: str, revision: str | None, token: str | None, patience: _Patience) -> ModelFacts:
    found = _ask_hub(name, revision, token, patience)
    architecture = parse_architecture(found.config, found.quant_config)
    facts = ModelFacts(name, found.sha, "hub", architecture, found.gated, found.parameters)
    warnings = (*unheeded_quantization(found.config, found.quant_config), *_count_warnings(facts, found.uncounted))
    return replace(facts, warnings=warnings)


def _count_warnings(facts: ModelFacts, uncounted: str) -> tuple[tuple[str, str], ...]:
    """Says when what config.json implies and what the checkpoint's headers hold disagree by more than 2 %.

    Parameters where nothing is quantized (a float32 checkpoint is loaded as 16 bits), bytes where something is
    (packed weights are counted as the integers they are packed in). Many checkpoints leave out the layer that drafts.
    """
    if uncounted:
        return (("WeightCountUnchecked", f"the checkpoint's parameters could not be counted: {uncounted}"),)
    stored = dict(facts.safetensors_parameters)
    if not stored or not stored.keys() <= _STORED_BYTES.keys():
        return ()
    kinds = (facts.architecture, replace(facts.architecture, draft=None))
    if facts.architecture.quantization is None:
        held, unit = sum(stored.values()), "parameters"
        totals = [float(checkpoint_parameters(kind)) for kind in kinds]
    else:
        held, unit = sum(count * _STORED_BYTES[dtype] for dtype, count in stored.items()), "bytes"
        totals = [checkpoint_bytes(kind) for kind in kinds]
    counted = min(totals, key=lambda total: abs(total - held))
    difference = counted / held - 1 if held else 0.0
    if abs(difference) <= _COUNT_TOLERANCE:
        return ()
    message = f"config.json implies {counted:,.0f} {unit}, the checkpoint holds {held:,} ({difference:+.1%})"
    return (("WeightCountMismatch", message),)


def _ask_hub(name: str, revision: str | None, token: str | None, patience: _Patience) -> _Checkpoint:
    from huggingface_hub import constants
    from huggingface_hub.utils import disable_progress_bars

    if constants.HF_HUB_OFFLINE:
        raise HubUnavailable("the hub is switched off here (HF_HUB_OFFLINE)")
    disable_progress_bars()  # bars of a client would land between the lines of a report
    asking = _Asking()
    threading.Thread(target=_converse, args=(asking, name, revision, token), name="hub", daemon=True).start()
    if not asking.reached.wait(patience.first_seconds):
        raise HubUnavailable(f"the hub did not answer for {name} within {patience.first_seconds:g} s")
    if not asking.done.wait(patience.all_seconds):
        raise HubUnavailable(f"the hub did not answer all questions for {name} within {patience.all_seconds:g} s")
    if asking.found is None:
        raise asking.error or HubUnavailable(f"the hub can't be asked for {name}")
    return asking.found


def _converse(asking: _Asking, name: str, revision: str | None, token: str | None) -> None:
    """Ask, again after a server error, and leave the outcome in `asking`."""
    from huggingface_hub import HfApi

    try:
        api = HfApi(token=token)
        for attempt in range(1, _TRIES + 1):
            try:
                asking.found = _read_checkpoint(api, name, revision, asking.reached)
                return
            except Exception as error:  # noqa: BLE001  (the client's transport has its own exception tree)
                asking.error = _as_ours(error, name, revision)
                asking.reached.set()
                if attempt == _TRIES or not _is_transient(error):
                    return
            time.sleep(_TRY_AGAIN_SECONDS * attempt)
    finally:
        asking.reached.set()
        asking.done.set()


def _is_transient(error: Exception) -> bool:
    from huggingface_hub import errors as hub_errors

    return isinstance(error, hub_errors.HfHubHTTPError) and error.response.status_code >= 500


def _as_ours(error: Exception, name: str, revision: str | None) -> InferPlanError:
    """The client's errors become ours, told apart."""
    from huggingface_hub import errors as hub_errors

    if isinstance(error, InferPlanError):
        return error
    if isinstance(error, hub_errors.GatedRepoError):
        return ModelGated(f"{name} is gated: name a token with access to it (spec.model.tokenSecretRef or HF_TOKEN)")
    if isinstance(error, hub_errors.RevisionNotFoundError):
        return ModelNotFound(f"{name} has no revision {revision!r} on the hub")
    if isinstance(error, hub_errors.EntryNotFoundError):
        return ModelNotFound(f"{name} has no config.json on the hub")
    if isinstance(error, hub_errors.RepositoryNotFoundError):
        return ModelNotFound(
            f"{name} is not on the hub (or private: name a token, spec.model.tokenSecretRef or HF_TOKEN)"
        )
    if isinstance(error, hub_errors.HfHubHTTPError) and error.response.status_code == 401:
        return ModelGated(f"the hub does not accept the token it was given for {name}: check it for typos and expiry")
    return HubUnavailable(f"the hub can't be asked for {name}: {_short(error)}")


def _short(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__


def _read_checkpoint(api: HfApi, name: str, revision: str | None, reached: threading.Event) -> _Checkpoint:
    info = api.model_info(name, revision=revision, timeout=_REQUEST_SECONDS)
    reached.set()
    sha = info.sha or ""
    files = {s.rfilename for s in info.siblings or ()}
    config = _hub_json(api, name, sha, "config.json")
    quant = _hub_json(api, name, sha, "hf_quant_config.json") if "hf_quant_config.json" in files else None
    counts, uncounted = _counted(api, name, sha)
    return _Checkpoint(sha, bool(info.gated), config, quant, counts, uncounted)


def _counted(api: HfApi, name: str, sha: str) -> tuple[tuple[tuple[str, int], ...], str]:
    """Parameters per dtype as the headers say; they only check what config.json told, so a failure is a remark."""
    from huggingface_hub import errors as hub_errors

    try:
        metadata = api.get_safetensors_metadata(name, revision=sha, timeout=_REQUEST_SECONDS)
    except (hub_errors.NotASafetensorsRepoError, hub_errors.SafetensorsParsingError):
        return (), ""
    except Exception as error:  # noqa: BLE001
        return (), _short(error)
    return tuple(sorted(metadata.parameter_count.items())), ""


def _hub_json(api: HfApi, name: str, sha: str, file: str) -> Mapping[str, Any]:
    """A small file at a commit, without the client's cache on disk: a container may have none."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    url = hf_hub_url(name, file, revision=sha, endpoint=api.endpoint)
    response = get_session().get(url, headers=build_hf_headers(token=api.token), timeout=_REQUEST_SECONDS)
    hf_raise_for_status(response)
    return _json_object(file, response.content)
