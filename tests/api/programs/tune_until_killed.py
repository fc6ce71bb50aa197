"""Tune a network with short plans: ``python tune_until_killed.py NETWORK TOOLCHAIN RUN PASS…``; the test kills it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import short_plans

network, toolchain, run, *passes = sys.argv[1:]
short_plans.tune(network, toolchain=toolchain, trials=11, confirm=0, passes=passes, out=run)
