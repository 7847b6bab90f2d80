"""What a user can get wrong, each kind with its exit code; the command line prints them without a traceback."""


class UserError(ValueError):
    """A mistake outside the program: one screen that says what, where, why, and what to do.

    Args:
        what: one sentence, the mistake itself.
        where: the place, as ``file``, ``file:line`` or a configuration key.
        why: the reason, when `what` does not say it.
        fix: what the user can do about it.
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.why, self.fix = what, where, why, fix

    def __str__(self) -> str:
        labelled = [("where", self.where), ("why", self.why), ("do", self.fix)]
        return "\n".join([self.what, *(f"  {label + ':':<6} {text}" for label, text in labelled if text)])


class ConfigError(UserError):
    """A command line or configuration that cannot be used (exit 2)."""


class DataError(UserError):
    """Data that is missing, damaged or does not fit the task (exit 3)."""

    exit_code = 3


class CheckpointError(UserError):
    """A run folder or checkpoint that is missing, damaged or belongs to something else (exit 4)."""

    exit_code = 4


class NumericalError(UserError):
    """Training met a number that is not finite and stopped before it reached the weights (exit 5)."""

    exit_code = 5


class OutputError(UserError):
    """Something could not be written: disk full, no permission, output closed (exit 74)."""

    exit_code = 74


class PellucidWarning(UserWarning):
    """Something was done otherwise than asked for; the message says what and why. The command line prints it."""
