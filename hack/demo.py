"""The whole story on a real control plane: a plan, its recommendation, a refused approval, an approval, pods.

    python hack/demo.py up     (make demo)
    python hack/demo.py down   (make demo-down)

What is shown is what ran: every `$` line is a command of yours to repeat. All of it is left running.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path

from cluster import ROOT, Cluster, ClusterError, end_recorded, say

FOLDER = ROOT / ".cache/demo"
PLAN = ROOT / "examples/chat-8b.yaml"
NAME, NAMESPACE = "chat", "team-a"


def up() -> None:
    """Tell the story from an empty machine."""
    started = time.monotonic()
    if end_recorded(FOLDER):
        say("an earlier demo was ended")
    cluster = Cluster(FOLDER)
    chapter("A Kubernetes control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok")
    cluster.start()
    cluster.start_kwok()
    cluster.add_gpu_node("gpu-h100", "H100-SXM", 8)
    cluster.add_gpu_node("gpu-l40s", "L40S", 4)
    show(cluster, "admin", "get", "nodes", "-L", "nvidia.com/gpu.product,nvidia.com/gpu.count")
    chapter("InferPlan's CRDs, roles and admission policies; the operator under its own service account")
    cluster.install()
    cluster.ensure_namespace(NAMESPACE)
    show(cluster, "admin", "get", "validatingadmissionpolicies")
    cluster.start_operator()
    tell(cluster)
    finish(cluster, time.monotonic() - started)


def tell(cluster: Cluster) -> None:
    """From the plan to its pods."""
    chapter("Edith, an editor, asks for a chat model")
    for example in sorted((ROOT / "examples").glob("*.yaml")):
        show(cluster, "editor", "apply", "--server-side", "-f", str(example.relative_to(ROOT)))
    digest = cluster.wait(lambda: offered(cluster), 60, "a recommendation")
    show(cluster, "editor", "get", "ipl", "-A")
    inferplan(cluster, "editor", "status", NAME, "-n", NAMESPACE)
    chapter("Nothing runs: a recommendation is only a recommendation")
    show(cluster, "admin", "get", "deployments,pods", "-n", NAMESPACE)
    chapter("Edith may not approve: the API server says no")
    approval = json.dumps({"spec": {"approval": {"digest": digest}}})
    show(cluster, "editor", "patch", "ipl", NAME, "-n", NAMESPACE, "--type=merge", "-p", approval)
    chapter("April, an approver, approves exactly this recommendation")
    inferplan(cluster, "approver", "approve", NAME, "-n", NAMESPACE, "--digest", digest, "--yes")
    cluster.wait(lambda: available(cluster), 90, "the approved pods to be ready")
    chapter("Now it is deployed; the scheduler bound the pods to nodes of the approved GPU type")
    columns = "NAME:.metadata.name,NODE:.spec.nodeName,PHASE:.status.phase"
    show(cluster, "admin", "get", "deployments", "-n", NAMESPACE)
    show(cluster, "admin", "get", "pods", "-n", NAMESPACE, "-o", f"custom-columns={columns}")
    show(cluster, "approver", "get", "ipl", "-A")
    show(cluster, "admin", "get", "events", "-n", NAMESPACE, "--field-selector", "involvedObject.kind=InferencePlan")


def offered(cluster: Cluster) -> str | None:
    plan = cluster.get("ipl", NAME, "-n", NAMESPACE) or {}
    digest = plan.get("status", {}).get("recommendation", {}).get("digest")
    return str(digest) if digest else None


def available(cluster: Cluster) -> bool:
    plan = cluster.get("ipl", NAME, "-n", NAMESPACE) or {}
    conditions = plan.get("status", {}).get("conditions", [])
    return any(c["type"] == "Available" and c["status"] == "True" for c in conditions)


def chapter(title: str) -> None:
    print(f"\n== {title}", flush=True)


def show(cluster: Cluster, person: str, *arguments: str) -> None:
    """Run kubectl as someone and show command and answer; refusals are part of the story."""
    print(f"\n[{person}] $ kubectl {shlex.join(arguments)}", flush=True)
    done = cluster.kubectl(*arguments, person=person, check=False)
    print((done.stdout + done.stderr).rstrip(), flush=True)


def inferplan(cluster: Cluster, person: str, *arguments: str) -> None:
    """The plugin, as someone."""
    print(f"\n[{person}] $ kubectl inferplan {shlex.join(arguments)}", flush=True)
    done = cluster.plugin(*arguments, person=person)
    print((done.stdout + done.stderr).rstrip(), flush=True)


def finish(cluster: Cluster, seconds: float) -> None:
    config, editor = (cluster.kubeconfig(p).relative_to(ROOT) for p in ("approver", "editor"))
    tools = cluster.bin.relative_to(ROOT) if cluster.bin.is_relative_to(ROOT) else cluster.bin
    print(
        f"""
== Done in {seconds:.0f} s; everything is left running. Try (from this folder):

  export PATH=$PWD/{tools}:$PWD/.venv/bin:$PATH
  export KUBECONFIG=$PWD/{config}     # April, the approver; editor.kubeconfig, viewer.kubeconfig lie beside it
  kubectl get ipl -A -o wide
  kubectl explain ipl.spec.workload
  kubectl inferplan status {NAME} -n {NAMESPACE}
  kubectl inferplan plan -f examples/chat-8b.yaml
  kubectl --kubeconfig {editor} patch ipl {NAME} -n {NAMESPACE} --type merge \\
    -p '{{"spec":{{"workload":{{"concurrency":200}}}}}}'     # a new recommendation waits, the approved one runs on
  make demo-down
"""
    )


def down() -> None:
    print("the demo is ended" if end_recorded(FOLDER) else "no demo is running")


def main() -> int:
    verbs = {"up": up, "down": down}
    if len(sys.argv) != 2 or sys.argv[1] not in verbs:
        print(f"usage: {Path(sys.argv[0]).name} up|down", file=sys.stderr)
        return 2
    try:
        verbs[sys.argv[1]]()
    except ClusterError as error:
        print(f"\nThe demo failed: {error}\nLogs lie in {FOLDER}; make demo-down ends what is left.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
