"""The kinds of error, drawn once: whose fault it is, and whether trying again can help.

    BeyondSWEError
    ├── UsageError      the user's: wrong options, wrong words        exit 2, nothing started
    ├── DataError       the data's: a bad row, a bad file             exit 2, nothing started
    ├── EngineError     the machine's: retried, never a failed attempt
    │   └── EngineUnavailable   no engine answers                     exit 3
    ├── AgentError      the agent's: it ended badly; its patch is scored all the same
    └── ScoringError    the scorer's own: becomes an infrastructure error
        └── InstanceFault   the instance's, not the patch's

An error that is ``permanent`` is the same the next time: nobody tries again.
Every message says what happened, where, and what to do about it.
"""

from __future__ import annotations


class BeyondSWEError(Exception):
    """Base of all errors that the command line shows without a traceback."""

    exit_code = 1
    permanent = False
    """Whether trying again cannot help."""


class UsageError(BeyondSWEError):
    """The command was used wrongly; nothing was started."""

    exit_code = 2
    permanent = True


class DataError(BeyondSWEError):
    """A dataset, a row or a file is not what it must be; nothing was started."""

    exit_code = 2
    permanent = True


class EngineError(BeyondSWEError):
    """The container engine or the machine failed; the attempt is an infrastructure error and is retried."""

    exit_code = 3

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


class EngineUnavailable(EngineError):
    """No container engine answers."""


class AgentError(BeyondSWEError):
    """The agent could not be started or ended in an error of its own."""


class ScoringError(BeyondSWEError):
    """Scoring itself went wrong (a fault of the dataset or of this tool, never of the agent)."""


class InstanceFault(ScoringError):
    """What an instance says cannot be done: a hidden patch that does not apply, a suite that is not there."""

    permanent = True
