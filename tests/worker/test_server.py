"""The worker's own process, without a compiler."""

import json
import subprocess
import sys

FAST_FORK = """
import os, sys, time
from passsearch.worker import server

class Verbs:
    def do_nothing(self, request):
        return {"answered": True}

def slow_in_the_parent(child, group, setpgid=os.setpgid):
    time.sleep(0.3 if child else 0)
    setpgid(child, group)

os.setpgid = slow_in_the_parent
server._answer_in_fork(Verbs(), {"verb": "nothing"}, pipe=os.fdopen(1, "w"))
"""


def test_a_fork_that_answers_at_once_is_announced_first() -> None:
    run = subprocess.run([sys.executable, "-c", FAST_FORK], capture_output=True, text=True, timeout=60, check=True)
    announced, answer = map(json.loads, run.stdout.splitlines())
    assert list(announced) == ["forked"] and answer == {"answered": True}
