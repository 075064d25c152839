"""Verdicts: what one check found, and what that makes of the whole history.

The verdict on the whole is *violated* if any check is violated. Otherwise it is *unknown* if nothing could be decided at
all, or if a check that the user asked for by name is unknown; with the default choice of checks, one that lacks its
columns says *unknown* for itself and the rest decide. Otherwise it is *ok*: nothing that was checked is violated.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, ParamSpec, TypeAlias

from isotone.pipeline.oracle.witness import Size, Witness

P = ParamSpec("P")
Verdict: TypeAlias = Literal["ok", "violated", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found in one run."""

    violations: int = 0
    witness: Witness | None = None
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
    """Counts violations and keeps the smallest witness, of equally small ones the first."""

    __slots__ = ("_size", "count", "note", "witness")

    def __init__(self) -> None:
        self.count = 0
        self.witness: Witness | None = None
        self.note: str | None = None
        self._size: Size = (0, 0)

    def hit(self, size: Size, make: Callable[P, Witness], *args: P.args, **kwargs: P.kwargs) -> None:
        """One more violation; its witness is made only if `size` (messages, processes) is below that of the one kept."""
        if self.witness is None or size < self._size:
            self.witness, self._size = make(*args, **kwargs), size
        self.count += 1

    def finding(self, missing: str | None = None) -> Finding:
        return Finding(self.count, self.witness, None if self.count else missing, self.note)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The verdict of one check over all runs of a trace."""

    name: str
    verdict: Verdict
    violations: int
    witness: Witness | None
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
                    "witness": None if result.witness is None else result.witness.to_json(),
                }
                for result in self.checks
            ],
        }


def merge(name: str, findings: list[tuple[str, Finding]]) -> CheckResult:
    """One result from the findings of several runs; the smallest witness is kept, with its run if there are several."""
    violations = sum(finding.violations for _, finding in findings)
    witness: Witness | None = None
    missing = note = None
    for run, finding in findings:
        prefix = f"run {run}: " if len(findings) > 1 else ""
        about = run if len(findings) > 1 else None
        mine = finding.witness
        relevant = mine is not None and bool(finding.violations) == bool(violations)
        if mine is not None and relevant and (witness is None or mine.size < witness.size):
            witness = replace(mine, text=prefix + mine.text, run=about)
        if missing is None and finding.missing is not None:
            missing = finding.missing
        if note is None and finding.note is not None:
            note = prefix + finding.note
    verdict: Verdict = "violated" if violations else "unknown" if missing is not None or not findings else "ok"
    if verdict == "unknown" and witness is None and missing is not None:
        witness = Witness(f"undecided: the trace has no {missing}")
    return CheckResult(name, verdict, violations, witness, missing if verdict == "unknown" else None, note)
