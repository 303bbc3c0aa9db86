"""How the operator takes a crowd: N plans of M different intents applied at once, on a real API server.

    python benchmarks/operator_scale.py [--plans 500] [--intents 40] [--kubeconfigs FOLDER]

Starts its own control plane unless FOLDER has `admin.kubeconfig` and `operator.kubeconfig` of one. Prints one JSON
object: seconds until every plan has a recommendation, one plan's own latency before and after, memory, writes per plan.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "hack"))

from cluster import Cluster, free_port  # noqa: E402

from inferplan_operator.cluster.kinds import NAMESPACES, NODES, PLANS, Key  # noqa: E402
from inferplan_operator.cluster.server import ApiServer, load_credentials  # noqa: E402

NAMESPACE = "scale"
MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "meta-llama/Meta-Llama-3.1-8B", "Qwen/Qwen2.5-14B-Instruct")


def plan(name: str, intent: int) -> dict[str, Any]:
    """One of as many different intents as there are numbers."""
    return {
        "apiVersion": "inferplan.io/v1alpha1",
        "kind": "InferencePlan",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "model": {"id": MODELS[intent % len(MODELS)]},
            "workload": {
                "inputTokens": {"p50": 800, "p95": 3000},
                "outputTokens": {"p50": 200, "p95": 600},
                "concurrency": 8 + intent,
            },
            "objectives": {"ttftP95Ms": 3000, "tpotP95Ms": 60},
        },
    }


class Operator:
    """The operator's process and what its own metrics say."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self.port = free_port()
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": "inferplan-system"}
        environment |= {"POD_NAME": f"scale-{self.port}", "INFERPLAN_PORT": str(self.port)}
        program = Path(sys.executable).parent / "inferplan-operator"
        self.started = time.monotonic()
        with log.open("wb") as output:
            self.process = subprocess.Popen([str(program), "run"], env=environment, stdout=output, stderr=output)
        atexit.register(self.process.kill)

    def metrics(self) -> dict[str, float]:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as page:
                lines = page.read().decode().splitlines()
        except OSError:
            return {}
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}

    def peak_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def cpu_seconds(self) -> float:
        return self.metrics().get("process_cpu_seconds_total", 0.0)

    async def until(self, condition: str, count: float, within_seconds: float = 300.0) -> float:
        """Seconds until a metric has reached a value."""
        started = time.monotonic()
        while (self.metrics().get(condition) or 0) < count:
            if time.monotonic() - started > within_seconds or self.process.poll() is not None:
                raise SystemExit(f"{condition} did not reach {count}: {self.metrics().get(condition)}")
            # A scrape costs the operator time too; more of them would measure themselves.
            await asyncio.sleep(0.5)
        return time.monotonic() - started

    def stop(self) -> float:
        """Seconds from SIGTERM to the end."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        return time.monotonic() - started


async def one_plan_seconds(server: ApiServer, name: str, intent: int) -> float:
    """From the create's answer to a recommendation in the status."""
    await server.create(plan(name, intent))
    started = time.monotonic()
    while time.monotonic() - started < 60:
        found = await server.get(PLANS, Key(NAMESPACE, name))
        if found is not None and (found.get("status") or {}).get("recommendation"):
            return time.monotonic() - started
        await asyncio.sleep(0.01)
    raise SystemExit(f"no recommendation for {name}")


async def create_all(server: ApiServer, count: int, intents: int) -> float:
    started = time.monotonic()
    limit = asyncio.Semaphore(32)

    async def create(number: int) -> None:
        async with limit:
            await server.create(plan(f"plan-{number}", number % intents))

    await asyncio.gather(*(create(number) for number in range(count)))
    return time.monotonic() - started


def writes(metrics: dict[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    pattern = re.compile(
        r'inferplan_api_requests_total\{resource="(\w+)",status="(\d+)",verb="(POST|PATCH|PUT|DELETE)"\}'
    )
    for name, value in metrics.items():
        if (match := pattern.fullmatch(name)) and match[1] != "leases":
            key = f"{match[3]} {match[1]} {match[2]}"
            found[key] = found.get(key, 0) + value
    return found


async def measure(kubeconfigs: Path, plans: int, intents: int, log: Path) -> dict[str, Any]:
    os.environ["KUBECONFIG"] = str(kubeconfigs / "admin.kubeconfig")
    server = ApiServer.connect(await load_credentials(), lambda *_: None)
    if await server.get(NAMESPACES, Key("", NAMESPACE)) is not None:
        raise SystemExit(f"namespace {NAMESPACE} exists; delete it first")
    await server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    if not (await server.list(NODES)).items:
        raise SystemExit("the cluster has no nodes")
    operator = Operator(kubeconfigs / "operator.kubeconfig", log)
    await operator.until("inferplan_leader", 1)
    result: dict[str, Any] = {"start_to_leading_s": time.monotonic() - operator.started}
    result["first_plan_s"] = await one_plan_seconds(server, "first", intents)
    result["second_plan_s"] = await one_plan_seconds(server, "second", intents + 1)
    before, cpu = writes(operator.metrics()), operator.cpu_seconds()
    created = asyncio.create_task(create_all(server, plans, intents))
    waiting = 'inferplan_plans{status="AwaitingApproval"}'
    result["all_recommended_s"] = await operator.until(waiting, plans + 2)
    result["all_created_s"] = await created
    await asyncio.sleep(3)
    after = writes(operator.metrics())
    result["writes_per_plan"] = {k: round((v - before.get(k, 0)) / plans, 3) for k, v in after.items()}
    result["operator_cpu_s"] = operator.cpu_seconds() - cpu
    result["peak_rss_mib"] = operator.peak_mib()
    await asyncio.sleep(10)
    result["writes_in_10_quiet_s"] = sum(writes(operator.metrics()).values()) - sum(after.values())
    result["stop_s"] = operator.stop()
    again = Operator(kubeconfigs / "operator.kubeconfig", log)
    await again.until(waiting, plans + 2)
    result["restart_to_all_looked_at_s"] = time.monotonic() - again.started
    await asyncio.sleep(2)
    result["writes_after_restart"] = writes(again.metrics())
    result["peak_rss_after_restart_mib"] = again.peak_mib()
    again.stop()
    await server.close()
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=500)
    parser.add_argument("--intents", type=int, default=40)
    parser.add_argument("--kubeconfigs", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="inferplan-scale-"))
    cluster: Cluster | None = None
    try:
        if options.kubeconfigs is None:
            cluster = Cluster(folder / "cluster")
            cluster.start()
            cluster.install()
            cluster.add_gpu_node("gpu-a", "H100-SXM", 8)
        where = options.kubeconfigs or folder / "cluster"
        result = asyncio.run(measure(where, options.plans, options.intents, folder / "operator.log"))
    finally:
        if cluster is not None:
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(json.dumps({"plans": options.plans, "intents": options.intents, **result}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
