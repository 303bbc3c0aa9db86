"""A hub on this machine: the HTTP interface that huggingface_hub speaks, with repositories in every state.

No hub is reachable where tests run, so the server is ours; the client is the real huggingface_hub.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

SHA = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_right"  # noqa: S105  (a pretend token)
STRANGERS_TOKEN = "hf_stranger"  # noqa: S105  (valid, without access to gated repositories)


def safetensors(parameters: dict[str, tuple[str, list[int]]]) -> bytes:
    """A safetensors file's header (the tensors themselves are never asked for)."""
    sizes = {"BF16": 2, "F32": 4, "F8_E4M3": 1}
    header: dict[str, Any] = {}
    offset = 0
    for name, (dtype, shape) in parameters.items():
        count = sizes[dtype]
        for side in shape:
            count *= side
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + count]}
        offset += count
    encoded = json.dumps(header).encode()
    return struct.pack("<Q", len(encoded)) + encoded


@dataclass
class Repository:
    """`gated`: files need the token (what the repository is made of is public). `failures`: so many requests are
    answered with 500 first. `moved_to`: renamed, requests are redirected. `large`: files that lie on the hub's storage,
    behind a redirect.
    """

    files: dict[str, bytes]
    gated: bool = False
    failures: int = 0
    moved_to: str = ""
    large: tuple[str, ...] = ("model.safetensors",)


@dataclass
class Hub:
    """`asked`: every path that was requested."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        self.hub.asked.append(self.path)
        path = self.path.partition("?")[0]
        name, rest = self._split(path)
        repository = self.hub.repositories.get(name)
        authorization = self.headers.get("Authorization")
        if authorization not in (None, f"Bearer {TOKEN}", f"Bearer {STRANGERS_TOKEN}"):
            self._refuse(401, "", "Invalid credentials in Authorization header", with_body)
        elif repository is None:
            self._refuse(401, "RepoNotFound", "Repository not found", with_body)
        elif repository.failures > 0:
            repository.failures -= 1
            self._send(500, b"oops", with_body)
        elif repository.moved_to:
            self._send(307, b"", with_body, {"Location": self.path.replace(name, repository.moved_to)})
        elif path.startswith("/api/models/"):
            self._info(name, rest, repository, with_body)
        elif repository.gated and authorization != f"Bearer {TOKEN}":
            self._refuse(401 if authorization is None else 403, "GatedRepo", "Access is restricted", with_body)
        else:
            self._file(name, rest, repository, with_body)

    def _refuse(self, status: int, code: str, message: str, with_body: bool) -> None:
        headers = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {})}
        self._send(status, b"", with_body, headers)

    def _split(self, path: str) -> tuple[str, str]:
        parts = path.removeprefix("/api/models/").removeprefix("/").split("/")
        return "/".join(parts[:2]), "/".join(parts[2:])

    def _info(self, name: str, rest: str, repository: Repository, with_body: bool) -> None:
        if rest.startswith("revision/") and rest.removeprefix("revision/") not in ("main", SHA):
            self._send(404, b"", with_body, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "no such revision"})
            return
        siblings = [{"rfilename": f} for f in repository.files]
        gated = "manual" if repository.gated else False
        content = {"id": name, "modelId": name, "sha": SHA, "gated": gated, "siblings": siblings, "private": False}
        self._send(200, json.dumps(content).encode(), with_body, {"Content-Type": "application/json"})

    def _file(self, name: str, rest: str, repository: Repository, with_body: bool) -> None:
        where, _, file = rest.split("/", 2) if rest.count("/") > 1 else ("", "", "")
        if where == "resolve" and file in repository.large and file in repository.files:
            location = f"{self.hub.url}/{name}/storage/{SHA}/{file}"
            self._send(302, b"", with_body, {"Location": location, "X-Repo-Commit": SHA, "X-Linked-ETag": '"e"'})
            return
        content = repository.files.get(file)
        if content is None:
            self._send(404, b"", with_body, {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
            return
        wanted = self.headers.get("Range")
        headers = {"ETag": f'"{file}-1"', "X-Repo-Commit": SHA, "Accept-Ranges": "bytes"}
        if wanted and wanted.startswith("bytes="):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            part = content[int(first) : int(last or len(content) - 1) + 1]
            headers["Content-Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
            self._send(206, part, with_body, headers)
        else:
            self._send(200, content, with_body, headers)

    def _send(self, status: int, body: bytes, with_body: bool, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class's name)
        """Quiet."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """The hub, with the real client pointed at it."""
    found = Hub()
    handler = type("Handler", (_Handler,), {"hub": found})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", found.url)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    template = found.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
    yield found
    server.shutdown()
    server.server_close()
    thread.join()
