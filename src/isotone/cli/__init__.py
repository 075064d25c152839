"""The command line. `main` turns every error that a user can cause into one clear line and an exit status.

Exit status: 0 fine, 1 a property is violated, 2 bad input or usage, 3 unknown.
"""

from isotone.cli.main import main

__all__ = ["main"]
