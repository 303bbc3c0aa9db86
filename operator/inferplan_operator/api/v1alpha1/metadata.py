"""The part of an object's metadata that is read; the rest is left alone."""

from __future__ import annotations

from pydantic import Field

from inferplan_operator.api.v1alpha1.fields import StatusModel


class Metadata(StatusModel):
    """Name, namespace and bookkeeping of an object; `namespace` is empty where a file names none."""

    name: str = Field(default="", description="Name of the object.")
    namespace: str = Field(default="", description="Namespace of the object.")
    uid: str = Field(default="", description="Set by the API server.")
    generation: int = Field(default=0, description="Counts changes of the spec.")
    resource_version: str = Field(default="", description="Counts changes of the object.")
    deletion_timestamp: str | None = Field(default=None, description="Set while the object is going.")
    labels: dict[str, str] = Field(default={}, description="Labels.")
    annotations: dict[str, str] = Field(default={}, description="Annotations.")
