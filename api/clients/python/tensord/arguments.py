"""Arguments of stored programs: parameters of a function that each call can set.

A stored program is traced with an Argument for each parameter that has a default. An argument can only be a whole attribute of an op. If
the function uses an argument in another way, for example in range(layers), in the list [axis] or as a tensor, the steps depend on its value.
The argument then raises Fixed, and the function is traced again with the default instead of the argument.
"""
from __future__ import annotations

from typing import Any, NoReturn


class Fixed(BaseException):
    """The steps depend on the value of a parameter. This is not an Exception, so that no `except` in the function catches it."""

    def __init__(self, name: str):
        super().__init__(name)
        self.name = name


class Argument:
    """An attribute whose value each call can set. Check for it with type(x) is Argument: isinstance reads __class__, which raises Fixed."""

    def __init__(self, name: str, default: Any):
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_default", default)

    def __getattribute__(self, name: str) -> NoReturn:
        raise Fixed(object.__getattribute__(self, "_name"))


def is_argument(value: Any) -> bool:
    return type(value) is Argument


def argument_json(value: Any) -> dict[str, Any]:
    return {"attr": object.__getattribute__(value, "_name"), "default": object.__getattribute__(value, "_default")}


def refuse_arguments(values: Any) -> None:
    """Raises Fixed if the nested lists contain an argument: a call can set a whole attribute, but not a part of one."""
    for value in values:
        if is_argument(value):
            raise Fixed(object.__getattribute__(value, "_name"))
        if isinstance(value, (list, tuple)):
            refuse_arguments(value)


def refuse_use(name: str) -> Any:
    def method(self: Argument, *_: object) -> NoReturn:
        raise Fixed(object.__getattribute__(self, "_name"))
    return method


# The methods that operators, conversions and statements call. They do not use __getattribute__.
USES = ("abs add and bool call ceil complex contains delitem divmod enter eq float floor floordiv format ge getitem gt hash index int invert iter le len lt matmul mod"
        " mul ne neg next or pos pow radd rand rdivmod repr reversed rfloordiv rmatmul rmod rmul ror round rpow rsub rtruediv rxor setitem str sub truediv trunc xor")
for _use in USES.split():
    setattr(Argument, f"__{_use}__", refuse_use(_use))
