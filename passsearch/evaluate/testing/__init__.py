"""Evaluators that need no compiler: a simulated machine whose disturbances are known, and a recorded space."""

from passsearch.evaluate.testing.recorded import RecordedBuild, RecordedEvaluator
from passsearch.evaluate.testing.simulated import Fatigue, Machine, Noise, SimulatedEvaluator

__all__ = ["Fatigue", "Machine", "Noise", "RecordedBuild", "RecordedEvaluator", "SimulatedEvaluator"]
