"""The error tree: who is at fault decides the class, and the class decides the exit code."""


class PassSearchError(Exception):
    """Root of every error passsearch raises on purpose; its text is one line that says what to do."""

    exit_code = 1


class UserError(PassSearchError):
    """The caller asked for something that cannot be: rule, value got, values allowed, next step."""

    exit_code = 2


class EnvironmentFault(PassSearchError):
    """The machine lacks something (toolchain, C compiler, disk, driver); says the command that mends it."""

    exit_code = 3


class WorkerDied(PassSearchError):
    """A worker process ended before it answered; the caller turns it into a typed ``Failure``."""

    exit_code = 3

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind
