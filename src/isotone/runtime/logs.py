"""One logger for the runtime, and lines that do not repeat themselves.

A peer that misbehaves a thousand times a second must not write a thousand lines: each subject speaks at most once per
interval, and says how often it was silent meanwhile.
"""

from __future__ import annotations

import logging
import time

logger = logging.getLogger("isotone")

_INTERVAL_S = 5.0
_SUBJECTS_MAX = 1024


class RateLimited:
    """Warnings, at most one per subject and interval; the number of subjects is bounded."""

    def __init__(self, prefix: str, interval_s: float = _INTERVAL_S) -> None:
        self._prefix = prefix
        self._interval_s = interval_s
        self._subjects: dict[str, tuple[float, int]] = {}

    def warning(self, subject: str, text: str) -> None:
        """Log `text`, unless something was said about `subject` a moment ago."""
        now = time.monotonic()
        last, silent = self._subjects.get(subject, (float("-inf"), 0))
        if now - last < self._interval_s:
            self._subjects[subject] = (last, silent + 1)
            return
        if len(self._subjects) >= _SUBJECTS_MAX:
            self._subjects.clear()
        self._subjects[subject] = (now, 0)
        more = f" ({silent} more of the kind)" if silent else ""
        logger.warning("%s: %s%s", self._prefix, text, more)
