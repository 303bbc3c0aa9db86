"""The API server: one request at a time, plain JSON in and out, retried where a retry is safe.

Requests go through the client library's connection (credentials, TLS, token rotation) but not through its models:
a reconcile reads and writes the same nested values that the watch delivers, and typed copies of them would only cost
time and lose fields this client's version does not know.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inferplan.errors import InferPlanError
from inferplan_operator.cluster.kinds import FIELD_MANAGER, Key, Kind, key_of, kind_of
from inferplan_operator.lifecycle.types import KubeObject

if TYPE_CHECKING:
    from kubernetes.aio.client.api_client import ApiClient
    from kubernetes.aio.client.configuration import Configuration

# Requests are small; the API server itself gives up after 60 s (its --request-timeout).
REQUEST_TIMEOUT_SECONDS = 30.0
# Pages of a list: what is parsed at once stays small beside what is kept.
PAGE_SIZE = 200

_ATTEMPTS = 5
_FIRST_DELAY_SECONDS = 0.1
_LONGEST_DELAY_SECONDS = 5.0
_APPLY = "application/apply-patch+yaml"
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class ApiError(InferPlanError):
    """The API server refused, or could not be asked (`status` 0)."""

    code = "ApiError"

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    @property
    def denied_by_policy(self) -> bool:
        """A ValidatingAdmissionPolicy said no. Missing permissions are a 403 too, but name no policy."""
        return self.status in (403, 422) and "ValidatingAdmissionPolicy" in self.message

    @property
    def namespace_is_going(self) -> bool:
        return self.status == 403 and "being terminated" in self.message


@dataclass(frozen=True, slots=True)
class Listing:
    """One kind's objects at one moment."""

    items: Sequence[KubeObject]
    resource_version: str


async def load_credentials() -> Configuration:
    """The pod's service account, else KUBECONFIG. Raises ApiError when there is neither."""
    from kubernetes.aio import config
    from kubernetes.aio.client.configuration import Configuration

    configuration = Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException:
        try:
            await config.load_kube_config(client_configuration=configuration)
        except config.ConfigException as error:
            message = f"no credentials: neither a service account in this pod nor a usable KUBECONFIG ({error})"
            raise ApiError(0, "NoCredentials", message) from error
    return configuration


class ApiServer:
    """Opened by `connect`, closed by `close`."""

    def __init__(self, client: ApiClient, observe: Callable[[str, str, int], None]) -> None:
        self._client = client
        self._observe = observe

    @classmethod
    def connect(cls, configuration: Configuration, observe: Callable[[str, str, int], None]) -> ApiServer:
        """`observe(verb, plural, status)` is told of every request that was made (status 0: no answer)."""
        from kubernetes.aio.client.api_client import ApiClient

        return cls(ApiClient(configuration), observe)

    async def close(self) -> None:
        await self._client.close()

    async def get(self, kind: Kind, key: Key) -> KubeObject | None:
        """The object as stored now; None when it does not exist. Raises ApiError."""
        try:
            return await self._request("GET", kind, kind.path(key.namespace, key.name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def list(self, kind: Kind, namespace: str = "") -> Listing:
        """All objects that the kind's selectors let through, in pages. Raises ApiError."""
        return await self._list(kind, namespace, "application/json")

    async def list_metadata(self, kind: Kind, namespace: str = "") -> Listing:
        """The same objects without spec, status and data: what exists, cheaply. Raises ApiError."""
        return await self._list(kind, namespace, _METADATA_ONLY)

    async def _list(self, kind: Kind, namespace: str, accept: str) -> Listing:
        query = {"limit": str(PAGE_SIZE)}
        if kind.label_selector:
            query["labelSelector"] = kind.label_selector
        if kind.field_selector:
            query["fieldSelector"] = kind.field_selector
        items: list[KubeObject] = []
        while True:
            page = await self._request("GET", kind, kind.path(namespace), query=query, accept=accept)
            # Items of a list carry no kind of their own; an empty list of metadata is `null`.
            items += [{**item, "apiVersion": kind.api_version, "kind": kind.kind} for item in page["items"] or ()]
            metadata = page["metadata"]
            if not metadata.get("continue"):
                return Listing(items, str(metadata["resourceVersion"]))
            query["continue"] = str(metadata["continue"])

    async def apply(self, manifest: KubeObject, subresource: str = "") -> KubeObject:
        """Server-side apply as the operator's field manager, taking over contested fields. Raises ApiError."""
        return await self._apply(manifest, subresource, "true")

    async def apply_new(self, manifest: KubeObject) -> KubeObject:
        """Server-side apply of an object that should not exist yet. Raises ApiError, 409 when it does after all.

        Server-side apply knows no "create only"; but without force, an object that somebody else made contests at
        least the selector, and nothing of it is touched. (A plain create would leave the fields to an `Update` entry
        of the same manager, and a later apply could no longer remove them.)
        """
        return await self._apply(manifest, "", "false")

    async def _apply(self, manifest: KubeObject, subresource: str, force: str) -> KubeObject:
        kind, key = kind_of(manifest), key_of(manifest)
        path = kind.path(key.namespace, key.name, subresource)
        query = {"fieldManager": FIELD_MANAGER, "force": force}
        return await self._request("PATCH", kind, path, query=query, body=manifest, content_type=_APPLY)

    async def create(self, manifest: KubeObject) -> KubeObject:
        """Raises ApiError, 409 when it exists."""
        kind, key = kind_of(manifest), key_of(manifest)
        query = {"fieldManager": FIELD_MANAGER}
        return await self._request("POST", kind, kind.path(key.namespace), query=query, body=manifest)

    async def replace(self, manifest: KubeObject) -> KubeObject:
        """Only the version named by `metadata.resourceVersion` is replaced. Raises ApiError, 409 when it moved."""
        kind, key = kind_of(manifest), key_of(manifest)
        query = {"fieldManager": FIELD_MANAGER}
        return await self._request("PUT", kind, kind.path(key.namespace, key.name), query=query, body=manifest)

    async def delete(self, manifest: KubeObject) -> None:
        """Delete exactly this object (by uid), its dependents in the background. Gone already is fine."""
        kind, key = kind_of(manifest), key_of(manifest)
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid := manifest["metadata"].get("uid"):
            options["preconditions"] = {"uid": uid}
        try:
            await self._request("DELETE", kind, kind.path(key.namespace, key.name), body=options)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def _request(
        self,
        method: str,
        kind: Kind,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: KubeObject | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> KubeObject:
        headers = {"Accept": accept, "Content-Type": content_type}

        async def once() -> KubeObject:
            try:
                answer = await self._send(method, path, query or {}, body, headers)
            except ApiError as error:
                self._observe(method, kind.plural, error.status)
                raise
            self._observe(method, kind.plural, 200)
            return answer

        return await _retried(once)

    async def _send(
        self, method: str, path: str, query: Mapping[str, str], body: KubeObject | None, headers: Mapping[str, str]
    ) -> KubeObject:
        import aiohttp

        try:
            prepared = await self._client.param_serialize(
                method,
                path,
                query_params=list(query.items()),
                header_params=dict(headers),
                body=body,
                auth_settings=["BearerToken"],
            )
            verb, url, all_headers, content, _ = prepared
            response = await self._client.call_api(
                verb, url, all_headers, content, _request_timeout=REQUEST_TIMEOUT_SECONDS
            )
            text = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            message = f"{method} {path}: {str(error) or type(error).__name__}"
            raise ApiError(0, "Unreachable", message) from error
        if not 200 <= response.status <= 299:
            raise _refusal(response.status, text, response.headers.get("Retry-After"))
        answer: KubeObject = json.loads(text)
        return answer


class _RetryLater(ApiError):
    """Worth asking again: too many requests, a server error, no answer."""

    def __init__(self, status: int, reason: str, message: str, after_seconds: float) -> None:
        super().__init__(status, reason, message)
        self.after_seconds = after_seconds


def _refusal(status: int, text: bytes, retry_after: str | None) -> ApiError:
    try:
        answer = json.loads(text)
        reason, message = str(answer.get("reason", "")), str(answer.get("message", ""))
    except (ValueError, AttributeError):
        reason, message = "", text[:500].decode("utf-8", "replace")
    message = message or f"HTTP {status}"
    # Server-side apply answers 500 for a manifest that doesn't fit the kind's schema; asking again won't help.
    misfit = "failed to create typed patch object" in message
    if status == 429 or (status >= 500 and not misfit):
        after = float(retry_after) if retry_after and retry_after.isdecimal() else 0.0
        return _RetryLater(status, reason, message, after)
    return ApiError(status, reason, message)


async def _retried(once: Callable[[], Awaitable[KubeObject]]) -> KubeObject:
    """Every request here may be sent twice: applies and replaces are idempotent or carry a version, a second
    create or delete is answered 409 or 404, which its callers take for done."""
    delay = _FIRST_DELAY_SECONDS
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await once()
        except ApiError as error:
            if attempt == _ATTEMPTS or not (error.status == 0 or isinstance(error, _RetryLater)):
                raise
            after = error.after_seconds if isinstance(error, _RetryLater) else 0.0
        # Full jitter: many objects that failed together do not come back together.
        await asyncio.sleep(max(after, random.uniform(delay / 2, delay)))  # noqa: S311 (no secret hangs on it)
        delay = min(delay * 2, _LONGEST_DELAY_SECONDS)
    raise AssertionError("unreachable")
