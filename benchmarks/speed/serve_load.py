"""Load-test the web server of an exported network on loopback.

    python -m benchmarks.speed.serve_load DEPLOY PYTHON [--calls 10000] > RESULTS.json

PYTHON is an interpreter with the deployment's TVM, fastapi and uvicorn; DEPLOY holds `built`. Every answer is compared
with the example output.
"""

import argparse
import datetime
import http.client
import io
import json
import os
import platform
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

CLIENTS = (1, 2, 8)
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Server:
    """The server in a process of its own."""

    def __init__(self, deploy: Path, python: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [python, "-m", "uvicorn", "--app-dir", str(EXAMPLES), "--log-level", "warning"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port), "serve_deployment:app"],
            env={**environment, "DEPLOY": str(deploy.resolve())},
        )
        self._wait()

    def _wait(self) -> None:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:  # noqa: PERF203
                assert self.process.poll() is None, "the server did not start"
                time.sleep(0.2)
            else:
                return

    def resident_mb(self) -> float:
        """Return the memory of the server."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def ask(connection: http.client.HTTPConnection, body: bytes) -> tuple[int, bytes]:
    """Send one request; return the status and the answer."""
    connection.request("POST", "/infer", body)
    answer = connection.getresponse()
    return answer.status, answer.read()


def load(port: int, body: bytes, wanted: Any, *, clients: int, calls: int) -> dict[str, Any]:
    """Send requests from several clients at once; return their rate, their latencies and the number of faults."""
    seconds: list[float] = []
    faults: list[str] = []

    def work() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for _ in range(calls // clients):
            start = time.perf_counter()
            status, content = ask(connection, body)
            seconds.append(time.perf_counter() - start)
            if status != 200:
                faults.append(f"{status} {content[:100]!r}")
            elif not np.array_equal(np.load(io.BytesIO(content))["output0"], wanted):
                faults.append("other outputs")

    threads = [threading.Thread(target=work) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total_s = time.perf_counter() - start
    median, late = (float(1e3 * np.percentile(seconds, share)) for share in (50, 99))
    return {
        "clients": clients,
        "calls": len(seconds),
        "requests_per_s": round(len(seconds) / total_s, 1),
        "median_ms": round(median, 2),
        "p99_ms": round(late, 2),
        "faults": len(faults),
        "first_faults": faults[:3],
    }


def bad_requests(port: int, inputs: dict[str, Any]) -> dict[str, str]:
    """Return the server's answers to requests that it must refuse."""
    name, array = next(iter(inputs.items()))
    batched = np.repeat(array, 8, axis=0) if array.ndim else array[None]
    bodies = {
        "not a file": b"hello",
        "missing input": _npz({other: value for other, value in inputs.items() if other != name}),
        "misnamed input": _npz({**{other: value for other, value in inputs.items() if other != name}, "other": array}),
        "batched input": _npz({**inputs, name: batched}),
        "input of another type": _npz({**inputs, name: array.astype("float64")}),
    }
    connection = http.client.HTTPConnection("127.0.0.1", port)
    answers = {}
    for kind, body in bodies.items():
        status, content = ask(connection, body)
        answers[kind] = f"{status} {content.decode()}"
    return answers


def _npz(arrays: dict[str, Any]) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def main() -> None:
    """Write the results as JSON to standard output."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("deploy", type=Path)
    parser.add_argument("python")
    parser.add_argument("--calls", type=int, default=10_000, help="calls in all (%(default)s)")
    options = parser.parse_args()
    examples = options.deploy / "built" / "examples"
    _, *names = (examples / "index.txt").read_text().splitlines()
    inputs = {name: np.load(examples / f"input-{place}.npy") for place, name in enumerate(names)}
    wanted, body = np.load(examples / "output-0.npy"), _npz(inputs)
    server = Server(options.deploy, options.python)
    try:
        load(server.port, body, wanted, clients=max(CLIENTS), calls=400)  # the machines and their threads are there
        rows, begin_mb = [], server.resident_mb()
        load_before = os.getloadavg()[0]
        for clients in CLIENTS:
            share = -(-options.calls // len(CLIENTS) // clients) * clients
            row = load(server.port, body, wanted, clients=clients, calls=share)
            rows.append({**row, "resident_mb": round(server.resident_mb(), 1)})
        refused = bad_requests(server.port, inputs)
        report = {
            "date": str(datetime.datetime.now(datetime.timezone.utc).date()),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "load_average_before": round(load_before, 1),
            "resident_mb_before": round(begin_mb, 1),
            "rows": rows,
            "refused": refused,
        }
        print(json.dumps(report, indent=1))
    finally:
        server.process.terminate()
        server.process.wait()


if __name__ == "__main__":
    main()
