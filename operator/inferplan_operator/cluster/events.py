"""Kubernetes Events, each once.

An Event is written before the status that its transition is read from, under a name that depends on nothing but the
transition: a process that is killed between the two writes the same Event again and is told that it exists.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

from inferplan_operator.cluster.kinds import EVENTS, FIELD_MANAGER
from inferplan_operator.cluster.server import ApiError, ApiServer
from inferplan_operator.lifecycle.types import EventRecord, KubeObject

# Limits of events.k8s.io/v1.
_LONGEST_NOTE_BYTES = 1024
_LONGEST_NAME = 253


def event_manifest(plan: KubeObject, record: EventRecord, instance: str) -> KubeObject:
    """The Event about the transition that leaves the status the plan has now."""
    metadata = plan["metadata"]
    before = json.dumps(plan.get("status") or {}, sort_keys=True)
    identity = "\0".join((metadata["uid"], record.type, record.reason, record.message, before))
    suffix = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "name": f"{metadata['name'][: _LONGEST_NAME - len(suffix) - 1]}.{suffix}",
            "namespace": metadata["namespace"],
        },
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": f"inferplan.io/{FIELD_MANAGER}",
        "reportingInstance": instance[:128],
        "action": "Reconcile",
        "reason": record.reason,
        "type": record.type,
        "note": _shortened(record.message),
        "regarding": {
            "apiVersion": plan["apiVersion"],
            "kind": plan["kind"],
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
    }


async def record_event(server: ApiServer, manifest: KubeObject) -> bool:
    """False when it was recorded already. Raises ApiError."""
    try:
        await server.create(manifest)
    except ApiError as error:
        if error.status != 409:
            raise
        return False
    return True


def _shortened(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _LONGEST_NOTE_BYTES:
        return message
    return encoded[: _LONGEST_NOTE_BYTES - 3].decode("utf-8", "ignore") + "…"
