"""Print seconds per inference, measured by the device's events and by the host's clock, as JSON.

Arguments: ``BRIDGE TARGET DEVICE NETWORK FOLDER``.
"""

import json
import sys
import time
from importlib import import_module
from pathlib import Path

from passsearch.core import BuildOptions
from passsearch.dialects.case_inputs import random_inputs
from passsearch.dialects.contract import ModelSource

home, _, name = sys.argv[1].partition(":")
bridge = getattr(import_module(home), name)(sys.argv[2])
module = bridge.load(ModelSource(Path(sys.argv[4]), "onnx", {}))
executable = bridge.open(bridge.build(module, BuildOptions(opt_level=3), Path(sys.argv[5])), sys.argv[3])
executable.run(random_inputs(bridge.inputs(module), seed=0))
as_declared = executable.event_time_s(1)
executable._has_events = True  # TVM emulates events on a CPU by the host's clock
executable.run_repeatedly(100)
event_times, clock_times = [], []
for _ in range(20):
    event_times.append(executable.event_time_s(200))
    start = time.perf_counter()
    executable.run_repeatedly(200)
    clock_times.append((time.perf_counter() - start) / 200)
print(json.dumps({"as_declared": as_declared, "events": min(event_times), "clock": min(clock_times)}))
