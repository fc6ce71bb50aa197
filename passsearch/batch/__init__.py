"""Batch jobs: many searches from one YAML file, on this machine or on the nodes of a Slurm cluster."""

from passsearch.batch.checks import find_mistakes
from passsearch.batch.code import require_trusted
from passsearch.batch.collect import collect
from passsearch.batch.cross import CrossJob, cross_jobs, cross_rows
from passsearch.batch.job import BatchJob, TuneJob, tune_jobs
from passsearch.batch.jobs_file import EXECUTORS, Device, JobsFile, Network, read_jobs
from passsearch.batch.queues import LocalQueue, Queue, QueueState, SlurmQueue, open_queue
from passsearch.batch.records import RECORDS
from passsearch.batch.state import LOGS, JobState, job_states
from passsearch.batch.submit import RESUBMIT, SUBMIT, cancel, submit, wait

__all__ = [
    "EXECUTORS",
    "LOGS",
    "RECORDS",
    "RESUBMIT",
    "SUBMIT",
    "BatchJob",
    "CrossJob",
    "Device",
    "JobState",
    "JobsFile",
    "LocalQueue",
    "Network",
    "Queue",
    "QueueState",
    "SlurmQueue",
    "TuneJob",
    "cancel",
    "collect",
    "cross_jobs",
    "cross_rows",
    "find_mistakes",
    "job_states",
    "open_queue",
    "read_jobs",
    "require_trusted",
    "submit",
    "tune_jobs",
    "wait",
]
