"""What mkdocstrings is told of values whose fields are their arguments: types and defaults."""

from typing import Any

from griffe import (
    Attribute,
    Class,
    Extension,
    Function,
    Module,
    Object,
    Parameter,
    ParameterKind,
    Parameters,
)


class Fields(Extension):
    """Gives a class without an ``__init__`` the one that pydantic makes of its fields."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Look at every class of the package."""
        self._visit(pkg)

    def _visit(self, thing: Object) -> None:
        for member in thing.members.values():
            if isinstance(member, (Module, Class)):
                self._visit(member)
        if isinstance(thing, Class) and "__init__" not in thing.members:
            fields = _fields(thing)
            if fields:
                thing.set_member("__init__", _constructor(thing, fields))


def _fields(owner: Class) -> list[Parameter]:
    """The annotated attributes that the docstring's arguments may speak of."""
    return [
        Parameter(
            name,
            annotation=member.annotation,
            kind=ParameterKind.keyword_only,
            default=None if member.value is None else str(member.value),
        )
        for name, member in owner.members.items()
        if isinstance(member, Attribute)
        and member.annotation is not None
        and not name.startswith("_")
        and "ClassVar" not in str(member.annotation)
    ]


def _constructor(owner: Class, fields: list[Parameter]) -> Function:
    own = Parameter("self", kind=ParameterKind.positional_or_keyword)
    made = Function("__init__", parameters=Parameters(own, *fields), parent=owner)
    made.runtime = False
    return made
