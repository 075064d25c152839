"""The checks in plain Python, for histories that fit in memory: written from the definitions, apart from the protocols."""

from isotone.pipeline.oracle.check import CHECKS, Expectation, check_history, default_checks
from isotone.pipeline.oracle.report import CheckResult, Report

__all__ = ["CHECKS", "CheckResult", "Expectation", "Report", "check_history", "default_checks"]
