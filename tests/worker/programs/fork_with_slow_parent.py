"""Serves one request in a fork whose parent process is slow, so that the fork's answer is ready first."""

import os
import time

from passsearch.worker import server

set_process_group = os.setpgid


class Verbs:
    def do_nothing(self, request):
        return {"answered": True}


def set_process_group_late(process, group):
    """Delay the parent, which sets the group by the fork's id; the fork sets its own by 0."""
    time.sleep(0.3 if process else 0)
    set_process_group(process, group)


os.setpgid = set_process_group_late
server._answer_in_fork(Verbs(), {"verb": "nothing"}, pipe=os.fdopen(1, "w"))
