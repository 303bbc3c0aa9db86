"""A decision → Deployment and Service. Pure, byte-stable."""

from inferplan_operator.manifests.render import (
    DIGEST_ANNOTATION,
    MANAGED_BY,
    PLAN_LABEL,
    Serving,
    TokenRef,
    Volume,
    arguments,
    render,
)

__all__ = [
    "DIGEST_ANNOTATION",
    "MANAGED_BY",
    "PLAN_LABEL",
    "Serving",
    "TokenRef",
    "Volume",
    "arguments",
    "render",
]
