"""A real control plane for the tests of this folder: started once a session, a namespace for each test.

`control_plane` is a `cluster.Cluster` (see hack/cluster.py) with CRDs and chart installed and people bound to the
chart's roles: `control_plane.kubectl("get", "ipl", person="editor")`, `.apply(manifest, person="approver")`,
`.get(…)`, `.wait(…)`, `.kubeconfig("operator")`. `older_control_plane` behaves as Kubernetes 1.34. `namespace` is a
fresh namespace on `control_plane`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster


def _started(folder: Path, emulated_version: str | None = None) -> Cluster:
    cluster = Cluster(folder, emulated_version)
    try:
        cluster.start()
        cluster.install()
    except BaseException:
        cluster.stop()
        raise
    return cluster


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = _started(tmp_path_factory.mktemp("cluster") / "state")
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def older_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The same binary behaving as the oldest Kubernetes we support."""
    cluster = _started(tmp_path_factory.mktemp("older") / "state", "1.34")
    yield cluster
    cluster.stop()


@pytest.fixture
def namespace(control_plane: Cluster) -> str:
    name = f"test-{uuid.uuid4().hex[:8]}"
    control_plane.ensure_namespace(name)
    control_plane.wait(lambda: control_plane.get("serviceaccount", "default", "-n", name), 30, f"namespace {name}")
    return name
