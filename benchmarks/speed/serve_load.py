"""Load-tests the web server of an exported network on loopback.

``python -m benchmarks.speed.serve_load DEPLOY PYTHON --out FILE``: PYTHON is an interpreter with the deployment's TVM,
fastapi and uvicorn; DEPLOY holds `built`. Every answer is compared with the example output.
"""

import http.client
import io
import os
import platform
import socket
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, ROOT, options, today, write

CLIENTS = (1, 2, 8)


class Server:
    """The server in a process of its own."""

    def __init__(self, deploy: Path, python: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [python, "-m", "uvicorn", "--app-dir", str(ROOT / "examples"), "--log-level", "warning"]
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
    """Send requests from several clients at once; return their rate, their latencies and the faults."""

    def work(_: int) -> list[tuple[float, str]]:
        connection, answers = http.client.HTTPConnection("127.0.0.1", port), []
        for _ in range(calls // clients):
            start = time.perf_counter()
            status, content = ask(connection, body)
            seconds, fault = time.perf_counter() - start, ""
            if status != 200:
                fault = f"{status} {content[:100]!r}"
            elif not np.array_equal(np.load(io.BytesIO(content))["output0"], wanted):
                fault = "other outputs"
            answers.append((seconds, fault))
        return answers

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        answers = [answer for each in pool.map(work, range(clients)) for answer in each]
    total_s = time.perf_counter() - start
    median_ms, p99_ms = 1e3 * np.percentile([seconds for seconds, _ in answers], [50, 99])
    rates = {"requests_per_s": len(answers) / total_s, "median_ms": median_ms, "p99_ms": p99_ms}
    faults = Counter(fault for _, fault in answers if fault)
    rounded = {name: round(float(value), 2) for name, value in rates.items()}
    return {"clients": clients, "calls": len(answers), **rounded, "faults": dict(faults)}


def bad_requests(port: int, inputs: dict[str, Any]) -> dict[str, str]:
    """Return the server's answers to requests that it must refuse."""
    name, array = next(iter(inputs.items()))
    others = {other: value for other, value in inputs.items() if other != name}
    bodies = {
        "not a file": b"hello",
        "missing input": _npz(others),
        "misnamed input": _npz({**others, "other": array}),
        "batched input": _npz({**inputs, name: np.repeat(array, 8, axis=0) if array.ndim else array[None]}),
        "input of another type": _npz({**inputs, name: array.astype("float64")}),
    }
    connection = http.client.HTTPConnection("127.0.0.1", port)
    answers = {kind: ask(connection, body) for kind, body in bodies.items()}
    return {kind: f"{status} {content.decode()}" for kind, (status, content) in answers.items()}


def _npz(arrays: dict[str, Any]) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def main() -> None:
    arguments = options(
        __doc__, ("deploy", Path), ("python", str), out=RESULTS / "serve_load.json", calls=(10_000, "calls in all")
    )
    examples = arguments.deploy / "built" / "examples"
    _, *names = (examples / "index.txt").read_text().splitlines()
    inputs = {name: np.load(examples / f"input-{place}.npy") for place, name in enumerate(names)}
    wanted, body = np.load(examples / "output-0.npy"), _npz(inputs)
    server = Server(arguments.deploy, arguments.python)
    try:
        load(server.port, body, wanted, clients=max(CLIENTS), calls=400)  # the machines and their threads are there
        about = {"date": today(), "machine": f"{platform.machine()}, {os.cpu_count()} cores"}
        about |= {"load_average_before": os.getloadavg()[0], "resident_mb_before": round(server.resident_mb(), 1)}
        rows = []
        for clients in CLIENTS:
            calls = -(-arguments.calls // len(CLIENTS) // clients) * clients
            row = load(server.port, body, wanted, clients=clients, calls=calls)
            rows.append({**row, "resident_mb": round(server.resident_mb(), 1)})
            print(rows[-1], flush=True)
        write(arguments.out, {**about, "rows": rows, "refused": bad_requests(server.port, inputs)})
    finally:
        server.process.terminate()
        server.process.wait()


if __name__ == "__main__":
    main()
