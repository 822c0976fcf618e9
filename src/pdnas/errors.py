"""The errors that pdnas raises on purpose: each is one sentence that says what to do."""

from pydantic import ValidationError


class PdnasError(Exception):
    """Base of every error of this package; the command line prints it and exits with code 2.

    Examples:
        >>> try:
        ...     pdnas.train("gnc", "citeseer")
        ... except pdnas.PdnasError as error:
        ...     print(error)
        Unknown baseline 'gnc'; known are: ... did you mean 'gcn'?
    """


class UnknownNameError(PdnasError):
    """A name that no registry, task list or flag knows."""


class ArchitectureError(PdnasError):
    """An architecture, or a space of them, that contradicts itself."""


class TaskError(PdnasError):
    """Data that cannot be read, or that do not form a task."""


class RecipeError(PdnasError):
    """A training recipe that cannot be followed."""


class DivergedError(PdnasError):
    """A training whose loss is no longer a number."""


class SearchError(PdnasError):
    """A search that cannot be made: settings without sense, or no network that fits."""


class RunError(PdnasError):
    """A run directory that cannot be written or read."""


class ExportError(PdnasError):
    """A network that cannot be written as a file of its own."""


class DeviceError(PdnasError):
    """A device that this machine does not have."""


class ParallelError(PdnasError):
    """Processes that cannot work together, or no longer."""


class ExecutorError(PdnasError):
    """A place where work cannot be done, or no longer."""


def shown(value: object, most: int = 100) -> str:
    """A value as a sentence has room for it: in one line, of signs that can be seen, and not long.

    Args:
        value: What someone gave.
        most: Signs that are shown at most.
    """
    text = "".join(sign if sign.isprintable() else " " for sign in str(value))
    return text if len(text) <= most else f"{text[: most - 3]}..."


def first_complaint(error: ValidationError) -> str:
    """The first problem that pydantic found, as the end of a sentence: ``blocks.0.heads: ...``."""
    problem = error.errors(include_url=False)[0]
    place = shown(".".join(str(part) for part in problem["loc"]))
    message = shown(problem["msg"].removeprefix("Value error, "), 400)
    return f"{place}: {message}" if place else message
