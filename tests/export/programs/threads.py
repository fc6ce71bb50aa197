"""Call one loaded network from several threads: ``threads.py DEPLOY THREADS CALLS``. Prints a JSON document."""

import json
import sys
import threading
from pathlib import Path

import numpy as np

deploy, threads, calls = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
sys.path.insert(0, str(deploy))

import run_model  # noqa: E402


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


network = run_model.load(deploy / "built", machines=threads)
examples = deploy / "built" / "examples"
# Each thread has inputs of its own: outputs of another thread's call must not be taken for its own.
own = [[np.load(examples / f"input-{place}.npy") * (1 + thread) for place in range(2)] for thread in range(threads)]
wanted = [network(*inputs) for inputs in own]
one_machine, faults, begin = resident_bytes(), [], threading.Barrier(threads)


def call(thread):
    begin.wait()
    image, bias = own[thread]
    forms = (lambda: network(image, bias), lambda: network(bias=bias, image=image), lambda: network(image, bias=bias))
    for number in range(calls):
        try:
            outputs = forms[number % 3]()
        except (RuntimeError, ValueError, TypeError, IndexError) as error:  # noqa: PERF203
            faults.append(repr(error))
        else:
            if not all(map(np.array_equal, outputs, wanted[thread])):
                faults.append("other outputs")


workers = [threading.Thread(target=call, args=(thread,)) for thread in range(threads)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
machines = len(network._pool._free)
while len(network._pool._free) < threads:  # as many as could run at once
    network._pool._free.append(network._pool._make())
for _ in range(threads):
    machine = network._pool._free.pop(0)
    machine({"image": own[0][0], "bias": own[0][1]})
    network._pool._free.append(machine)
print(json.dumps({"faults": faults[:5], "grown": resident_bytes() - one_machine, "machines": machines}))
