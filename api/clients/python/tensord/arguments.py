"""Arguments of stored programs: parameters of a function that each call can set.

A stored program is traced with an Argument in place of each parameter with a default. An argument can only be an attribute of an op. If
the function computes with it in Python, for example in range(layers), the steps depend on its value: it raises Fixed, and the function
is traced again with the default in place of the argument.
"""
from __future__ import annotations

from typing import Any, NoReturn


class Fixed(BaseException):
    """The function depends on the value of a parameter. Not an Exception, so that no function handles it."""

    def __init__(self, name: str):
        super().__init__(name)
        self.name = name


class Argument:
    """An attribute whose value each call can set. Compare its type with `is`: isinstance asks for its class, which raises Fixed."""

    def __init__(self, name: str, default: Any):
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_default", default)

    def __getattribute__(self, name: str) -> NoReturn:
        raise Fixed(object.__getattribute__(self, "_name"))


def is_argument(value: Any) -> bool:
    return type(value) is Argument


def argument_json(value: Any) -> dict[str, Any]:
    return {"attr": object.__getattribute__(value, "_name"), "default": object.__getattribute__(value, "_default")}


def refuse_use(name: str) -> Any:
    def method(self: Argument, *_: object) -> NoReturn:
        raise Fixed(object.__getattribute__(self, "_name"))
    return method


# The methods that operators, conversions and statements call. They do not use __getattribute__.
USES = ("abs add and bool call ceil complex contains delitem divmod enter eq float floor floordiv format ge getitem gt hash index int invert iter le len lt matmul mod"
        " mul ne neg next or pos pow radd rand rdivmod repr reversed rfloordiv rmatmul rmod rmul ror round rpow rsub rtruediv rxor setitem str sub truediv trunc xor")
for _use in USES.split():
    setattr(Argument, f"__{_use}__", refuse_use(_use))
