"""One hierarchy of errors. Each carries a stable reason code and says what would work."""

from __future__ import annotations


class InferPlanError(Exception):
    """Something the user can act on.

    `code` is stable (CamelCase, usable as a Kubernetes condition reason); the message names the field,
    the value and what would work.
    """

    code = "InferPlanError"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


class InvalidInput(InferPlanError):
    """A value the user gave can't be used."""

    code = "InvalidInput"


class UnknownGPU(InvalidInput):
    """A GPU name that resolves to no catalogue entry, or to several."""

    code = "UnknownGPU"


class UnknownQuantization(InvalidInput):
    """A quantization name that no rule knows."""

    code = "UnknownQuantization"


class ModelError(InferPlanError):
    """The model can't be read."""

    code = "ModelError"


class UnsupportedArchitecture(ModelError):
    """No parser reads this architecture; the message names the class and what is missing."""

    code = "UnsupportedArchitecture"


class InvalidModelConfig(ModelError):
    """config.json lacks a field or contradicts itself; the message names the field."""

    code = "InvalidModelConfig"


class ModelNotFound(ModelError):
    """Neither the hub, nor a directory, nor the bundled catalogue has the model."""

    code = "ModelNotFound"


class ModelGated(ModelError):
    """The hub has the model but wants a token with access to it."""

    code = "ModelGated"


class HubUnavailable(ModelError):
    """The hub could not be asked (no network, server error, time-out)."""

    code = "HubUnavailable"
