"""A real Kubernetes control plane on this machine, for tests and the demo: etcd, API server, controllers, scheduler.

    cluster = Cluster(folder); cluster.start(); …; cluster.stop()

Free ports, its own certificates, a token for each person. Nodes are kept alive by kwok, which also runs their pods in
name only; everything else is upstream Kubernetes. Processes end with `stop()`, or by hand through the pids that
`state.json` records.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from build_controlplane import build, say

ROOT = Path(__file__).parents[1]
NAMESPACE = "inferplan-system"
OPERATOR = f"system:serviceaccount:{NAMESPACE}:inferplan-operator"
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Person:
    """Someone with a token. `groups`: comma-separated."""

    user: str
    groups: str = ""


PEOPLE = {
    "admin": Person("admin", "system:masters"),
    "controllers": Person("system:kube-controller-manager"),
    "scheduler": Person("system:kube-scheduler"),
    "kwok": Person("kwok", "system:masters"),
    "operator": Person(OPERATOR, f"system:serviceaccounts,system:serviceaccounts:{NAMESPACE}"),
    "editor": Person("edith"),
    "approver": Person("april"),
    "viewer": Person("vera"),
}
ROLES = {"editor": "inferplan-editor", "approver": "inferplan-approver", "viewer": "inferplan-viewer"}

# GPU feature discovery's labels: product, memory in MiB.
GPU_NODES = {
    "H100-SXM": ("NVIDIA-H100-80GB-HBM3", 81559),
    "L40S": ("NVIDIA-L40S", 46068),
    "A100-SXM-80GB": ("NVIDIA-A100-SXM4-80GB", 81920),
    "T4": ("Tesla-T4", 15360),
}


__all__ = ["GPU_NODES", "ROOT", "Cluster", "ClusterError", "end_recorded", "say"]


class ClusterError(RuntimeError):
    """A component ended or never became ready; the message holds the end of its log."""


class Cluster:
    """One control plane. `folder` holds its state, kubeconfigs (`NAME.kubeconfig`) and logs."""

    def __init__(self, folder: Path, emulated_version: str | None = None) -> None:
        self.folder = folder
        self.emulated_version = emulated_version
        self.bin = build()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.port = 0

    def start(self) -> None:
        """Start every component and wait until the API server and the controllers answer."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._secrets()
        self._start_etcd()
        self._start_api_server()
        self._start_controllers()
        self._start_scheduler()
        self.wait(lambda: self.get("serviceaccount", "default") is not None, 60, "the controllers")
        self._record()

    def stop(self) -> None:
        """End every process, youngest first; the folder stays for a look at the logs."""
        for process in reversed(self._processes.values()):
            end(process.pid)
            process.wait()
        self._processes.clear()

    def kubeconfig(self, person: str) -> Path:
        return self.folder / f"{person}.kubeconfig"

    def kubectl(
        self, *arguments: str, person: str = "admin", stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as someone. Raises ClusterError with kubectl's own words unless `check` is false."""
        command = [str(self.bin / "kubectl"), "--kubeconfig", str(self.kubeconfig(person)), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
        if check and done.returncode:
            raise ClusterError(f"as {person}: kubectl {' '.join(arguments)}\n{done.stderr}{done.stdout}")
        return done

    def plugin(self, *arguments: str, person: str) -> subprocess.CompletedProcess[str]:
        """`kubectl inferplan …` as someone: kubectl finds the plugin on PATH."""
        path = os.pathsep.join([str(self.bin), str(ROOT / ".venv/bin"), os.environ.get("PATH", "")])
        env = {**os.environ, "PATH": path, "KUBECONFIG": str(self.kubeconfig(person))}
        command = [str(self.bin / "kubectl"), "inferplan", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, env=env, stdin=subprocess.DEVNULL
        )

    def get(self, *arguments: str, person: str = "admin") -> dict[str, Any] | None:
        """`kubectl get … -o json`; None where there is no such object."""
        done = self.kubectl("get", *arguments, "-o", "json", person=person, check=False)
        if done.returncode:
            return None
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def apply(self, manifest: object, person: str = "admin", *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Server-side apply of one manifest, or of a list of them."""
        several = manifest if isinstance(manifest, list) else [manifest]
        text = "\n---\n".join(json.dumps(m) for m in several)
        options = ("apply", "--server-side", "--force-conflicts", "--field-manager", person, "-f", "-")
        return self.kubectl(*options, person=person, stdin=text, check=check)

    def wait(self, condition: Callable[[], Found | bool | None], seconds: float, what: str, poll: float = 0.2) -> Found:
        """The first true answer. Raises ClusterError when time runs out or a component ended."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found  # type: ignore[return-value]
            self._check_alive()
            time.sleep(poll)
        raise ClusterError(f"not within {seconds:.0f} s: {what}")

    def install(self, values: tuple[str, ...] = ()) -> None:
        """CRDs and chart as Helm users get them, without the operator's own Deployment; people get the roles."""
        self.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        self.ensure_namespace(NAMESPACE)
        self.kubectl("wait", "--for=condition=Established", "crd/inferenceplans.inferplan.io", "--timeout=60s")
        manifests = [m for m in self.templates(values) if m["kind"] != "Deployment"]
        self.apply(manifests)
        for person, role in ROLES.items():
            self.apply(
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": f"inferplan-{person}"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                    "subjects": [{"kind": "User", "name": PEOPLE[person].user}],
                }
            )

    def templates(self, values: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """What `helm template` makes of the chart."""
        settings = [part for value in values for part in ("--set", value)]
        command = [str(self.bin / "helm"), "template", "inferplan", str(ROOT / "charts/inferplan")]
        command += ["--namespace", NAMESPACE, "--kube-version", "1.37.0", *settings]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"helm template: {done.stderr}")
        return [m for m in yaml.safe_load_all(done.stdout) if m]

    def ensure_namespace(self, name: str) -> None:
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def start_kwok(self) -> None:
        """Keep nodes Ready and run their pods in name only."""
        self._spawn(
            "kwok",
            str(self.bin / "kwok"),
            "--kubeconfig",
            str(self.kubeconfig("kwok")),
            "--manage-all-nodes=true",
            "--config",
            str(ROOT / "hack/kwok.yaml"),
            "--server-address",
            f"127.0.0.1:{free_port()}",
        )
        self._record()

    def add_gpu_node(self, name: str, gpu_type: str, count: int) -> None:
        """A node with `count` GPUs, labelled as GPU feature discovery does, Ready."""
        product, memory_mib = GPU_NODES[gpu_type]
        labels = {
            "nvidia.com/gpu.product": product,
            "nvidia.com/gpu.memory": str(memory_mib),
            "nvidia.com/gpu.count": str(count),
            "nvidia.com/gpu.present": "true",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": name,
        }
        self.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
        room = {"cpu": "192", "memory": "2000Gi", "pods": "110", "ephemeral-storage": "7000Gi"}
        room["nvidia.com/gpu"] = str(count)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        condition = {**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}
        status = {"capacity": room, "allocatable": room, "conditions": [condition]}
        patch = json.dumps({"status": status})
        self.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)
        self.kubectl("patch", "node", name, "--type=merge", "-p", '{"spec":{"taints":null}}')

    def start_operator(self, *arguments: str, name: str = "operator", **environment: str) -> subprocess.Popen[bytes]:
        """The operator as its own process, under its own service account; its log is `NAME.log`."""
        program = Path(os.environ.get("VIRTUAL_ENV") or ROOT / ".venv") / "bin/inferplan-operator"
        pod = {"POD_NAMESPACE": NAMESPACE, "POD_NAME": f"inferplan-{name}", "INFERPLAN_PORT": str(free_port())}
        env = {**os.environ, **pod, "KUBECONFIG": str(self.kubeconfig("operator")), **environment}
        process = self._spawn(name, str(program), "run", *arguments, env=env)
        self._record()
        return process

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """One of the processes that were started here."""
        return self._processes[name]

    def runs(self, name: str) -> bool:
        return name in self._processes

    def stop_process(self, name: str) -> None:
        """End one process that was started here."""
        process = self._processes.pop(name)
        end(process.pid)
        process.wait()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _spawn(self, name: str, *command: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env, start_new_session=True
            )
        self._processes[name] = process
        return process

    def _component(self, name: str, *flags: str) -> None:
        self._spawn(name, str(self.bin / "controlplane"), name, *flags)

    def _check_alive(self) -> None:
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise ClusterError(f"{name} ended with {process.returncode}:\n{self.log(name)[-2000:]}")

    def _record(self) -> None:
        state = {"port": self.port, "pids": {name: p.pid for name, p in self._processes.items()}}
        (self.folder / "state.json").write_text(json.dumps(state))

    def _secrets(self) -> None:
        key = self.folder / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        lines = []
        for name, person in PEOPLE.items():
            groups = f',"{person.groups}"' if person.groups else ""
            lines.append(f"{name}-token,{person.user},{name}{groups}")
        tokens = self.folder / "tokens.csv"
        tokens.write_text("\n".join(lines) + "\n")
        tokens.chmod(0o600)

    def _start_etcd(self) -> None:
        self.client = f"http://127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{free_port()}"
        self._component(
            "etcd",
            "--name=local",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self.client}",
            f"--advertise-client-urls={self.client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=local={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def _start_api_server(self) -> None:
        self.port = free_port()
        emulated = [f"--emulated-version={self.emulated_version}"] if self.emulated_version else []
        self._component(
            "kube-apiserver",
            f"--etcd-servers={self.client}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--cert-dir={self.folder / 'pki'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'sa.key'}",
            f"--service-account-signing-key-file={self.folder / 'sa.key'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            *emulated,
        )
        certificate = self.folder / "pki/apiserver.crt"
        self.wait(certificate.is_file, 60, "the API server's certificate")
        for person in PEOPLE:
            self._write_kubeconfig(person, certificate)
        self.wait(self._ready, 90, "the API server")

    def _ready(self) -> bool:
        return self.kubectl("get", "--raw", "/readyz", check=False).stdout.strip() == "ok"

    def _write_kubeconfig(self, person: str, certificate: Path) -> None:
        server = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": str(certificate)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": server}],
            "users": [{"name": person, "user": {"token": f"{person}-token"}}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": person}}],
            "current-context": "local",
        }
        path = self.kubeconfig(person)
        path.touch(mode=0o600)
        path.write_text(json.dumps(content))

    def _start_controllers(self) -> None:
        self._component(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig('controllers')}",
            f"--service-account-private-key-file={self.folder / 'sa.key'}",
            f"--root-ca-file={self.folder / 'pki/apiserver.crt'}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            # Nodes are made by hand and kept alive by kwok; nothing should taint them in between.
            "--controllers=*,-node-lifecycle-controller",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cert-dir={self.folder / 'pki-controllers'}",
        )

    def _start_scheduler(self) -> None:
        self._component(
            "kube-scheduler",
            f"--kubeconfig={self.kubeconfig('scheduler')}",
            f"--authentication-kubeconfig={self.kubeconfig('scheduler')}",
            f"--authorization-kubeconfig={self.kubeconfig('scheduler')}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cert-dir={self.folder / 'pki-scheduler'}",
        )


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end(pid: int, seconds: float = 15.0) -> None:
    """TERM to a process and its children, KILL when it does not listen."""
    try:
        os.killpg(pid, signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and _alive(pid):
            time.sleep(0.05)
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _alive(pid: int) -> bool:
    """Running, and no zombie that only waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return re.search(r"\) ([A-Z])", stat) is not None and ") Z" not in stat


def end_recorded(folder: Path) -> bool:
    """End the processes of a cluster that another process started; whether there was one."""
    path = folder / "state.json"
    if not path.is_file():
        return False
    pids: dict[str, int] = json.loads(path.read_text())["pids"]
    for pid in reversed(pids.values()):
        if _is_ours(pid):
            end(pid)
    path.unlink()
    return True


def _is_ours(pid: int) -> bool:
    """A recorded pid may have been given to somebody else since."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return False
    return any(name in command for name in ("controlplane", "kwok", "inferplan-operator"))
