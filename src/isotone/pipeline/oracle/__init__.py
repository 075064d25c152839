"""The checks in plain Python, for histories that fit in memory: written from the definitions, apart from the protocols."""

from isotone.pipeline.oracle.check import CHECKS, Expectation, check_history, default_checks
from isotone.pipeline.oracle.report import CheckResult, Report
from isotone.pipeline.oracle.witness import Edge, Witness, sub_history

__all__ = [
    "CHECKS",
    "CheckResult",
    "Edge",
    "Expectation",
    "Report",
    "Witness",
    "check_history",
    "default_checks",
    "sub_history",
]
