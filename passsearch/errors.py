"""The error tree: the class of an error says who can fix it, and sets the exit code of the command line."""


class PassSearchError(Exception):
    """The root of every error that passsearch raises on purpose; its text is one line with the next step."""

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: the text, which says all; ``%tb`` and plain Python still show the traceback."""
        return [f"{type(self).__name__}: {self}"]


class UserError(PassSearchError):
    """A request that cannot be fulfilled; the text gives the rule, the value got, the values allowed, the next step."""

    exit_code = 2


class TimeTooShort(UserError):
    """A search whose time limit ended before it had a result; it keeps what it measured, and more time continues it."""


class EnvironmentFault(PassSearchError):
    """Something missing on the machine (toolchain, C compiler, disk space, driver); the text says how to get it."""

    exit_code = 3


class WorkerDied(PassSearchError):
    """A worker process that ended before it answered; callers turn it into a ``Failure`` of the same kind.

    Attributes:
        kind: One of ``passsearch.core.FAILURE_KINDS``.
    """

    exit_code = 3

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind
