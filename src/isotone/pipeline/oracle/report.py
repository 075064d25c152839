"""Verdicts: what one check found, and what that makes of the whole history.

The verdict on the whole is *violated* if any check is violated. Otherwise it is *unknown* if nothing could be decided at
all, or if a check that the user asked for by name is unknown; with the default choice of checks, one that lacks its
columns says *unknown* for itself and the rest decide. Otherwise it is *ok*: nothing that was checked is violated.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Verdict: TypeAlias = Literal["ok", "violated", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found in one run."""

    violations: int = 0
    witness: str | None = None
    missing: str | None = None
    """The column, or kind of row, without which the check cannot decide."""
    note: str | None = None
    """What the check had to leave open although it decided."""

    @property
    def verdict(self) -> Verdict:
        if self.violations:
            return "violated"
        return "unknown" if self.missing is not None else "ok"


class Tally:
    """Counts violations and keeps the first in words."""

    __slots__ = ("count", "note", "witness")

    def __init__(self) -> None:
        self.count = 0
        self.witness: str | None = None
        self.note: str | None = None

    def hit(self, witness: str) -> None:
        if self.witness is None:
            self.witness = witness
        self.count += 1

    def finding(self, missing: str | None = None) -> Finding:
        return Finding(self.count, self.witness, None if self.count else missing, self.note)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The verdict of one check over all runs of a trace."""

    name: str
    verdict: Verdict
    violations: int
    witness: str | None
    missing: str | None = None
    note: str | None = None


@dataclass(slots=True)
class Report:
    """The outcome of checking one history."""

    events: int
    quarantined: int
    checks: list[CheckResult] = field(default_factory=list)
    by_name: bool = False
    """Whether the user named the checks."""

    @property
    def verdict(self) -> Verdict:
        verdicts = [result.verdict for result in self.checks]
        if "violated" in verdicts:
            return "violated"
        if "ok" not in verdicts or (self.by_name and "unknown" in verdicts):
            return "unknown"
        return "ok"

    def violated(self) -> list[str]:
        """Names of the violated checks."""
        return [result.name for result in self.checks if result.verdict == "violated"]

    def to_json(self) -> dict[str, Any]:
        """The object that `isotone verify --json` prints."""
        return {
            "verdict": self.verdict,
            "events": self.events,
            "quarantined": self.quarantined,
            "checks": [
                {
                    "name": result.name,
                    "verdict": result.verdict,
                    "violations": result.violations,
                    "witness": result.witness,
                }
                for result in self.checks
            ],
        }


def merge(name: str, findings: list[tuple[str, Finding]]) -> CheckResult:
    """One result from the findings of several runs; the first witness is kept, with its run if there are several."""
    violations = sum(finding.violations for _, finding in findings)
    witness = missing = note = None
    for run, finding in findings:
        prefix = f"run {run}: " if len(findings) > 1 else ""
        if witness is None and finding.witness is not None:
            witness = prefix + finding.witness
        if missing is None and finding.missing is not None:
            missing = finding.missing
        if note is None and finding.note is not None:
            note = prefix + finding.note
    verdict: Verdict = "violated" if violations else "unknown" if missing is not None or not findings else "ok"
    if verdict == "unknown" and witness is None and missing is not None:
        witness = f"undecided: the trace has no {missing}"
    return CheckResult(name, verdict, violations, witness, missing if verdict == "unknown" else None, note)
