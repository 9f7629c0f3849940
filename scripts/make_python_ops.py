#!/usr/bin/env python3
"""make_python_ops.py LIBRARY: writes python/onepass/_ops.py, a method for every op of the C API

Run it after an op was added to src/capi/ops.cpp. tests/python/core_test.py fails where the file
is not what this writes."""

import os
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
HEAD = '''"""Ops as methods of recorders. Written by scripts/make_python_ops.py."""

from typing import TYPE_CHECKING, Literal, Optional, Union, overload

if TYPE_CHECKING:
    from onepass._core import Array


class Ops:
    """Every op that recorders record; include/onepass/ops says what each computes. Options that are 0
    are the op's default."""

    def op(self, name: str, *tensors: "Optional[Array]", **more: "Union[Array, float, bool, str, None]") -> None:
        """Records an op by its name."""
        raise NotImplementedError
'''
FLOATS = ("eps", "factor", "cap", "scale", "theta")
FLAGS = ("keep_last", "full")
MODES = 'Literal["interleaved", "neox"]'


def option(name, unset):
    if name == "rope_mode":
        return f'{name}: {MODES} = {unset or chr(34) + "interleaved" + chr(34)}'
    if name in FLAGS:
        return f"{name}: bool = {unset or 'False'}"
    return f"{name}: {'float' if name in FLOATS else 'int'} = {unset or ('0.0' if name in FLOATS else '0')}"


def definition(name, arguments):
    line = f"    def {name}(self, {', '.join(arguments)}) -> None:"
    if len(line) <= 118:
        return line
    indent = " " * len(f"    def {name}(")
    lines, line = [], f"    def {name}(self"
    for argument in arguments:
        if len(line) + len(argument) > 106:
            lines.append(line + ",")
            line = indent + argument
        else:
            line += ", " + argument
    return "\n".join([*lines, line + ") -> None:"])


def method(op):
    tensors = [t.rstrip("?") for t in op.tensors]
    optional = [i for i, t in enumerate(op.tensors) if t.endswith("?")]
    given = [f"{t}={t}" for t in op.options]
    call = f'        self.op({", ".join([chr(34) + op.name + chr(34), *tensors, *given])})'

    def arguments(first_by_name, unset, optional_default):
        made = []
        for i, tensor in enumerate(tensors):
            if i == first_by_name:
                made.append("*")
            made.append(f'{tensor}: "Optional[Array]"{optional_default if i >= (first_by_name or 0) else ""}'
                        if i in optional else f'{tensor}: "Array"')
        if op.options:
            made += ([] if "*" in made else ["*"]) + [option(o, unset) for o in op.options]
        return made

    if not optional:
        return f"\n{definition(op.name, arguments(None, '', ''))}\n{call}\n"
    # What may be left out can be None in its place, or missing when what follows is given by name.
    first = optional[0]
    loose = [a if i < first else f'{tensors[i]}: "Optional[Array]" = None'
             for i, a in enumerate(arguments(None, "", "")[:len(tensors)])]
    if op.options:
        loose += ["*"] + [option(o, "") for o in op.options]
    text = ""
    for overloaded in (arguments(None, "...", ""), arguments(first, "...", " = ...")):
        text += f"\n    @overload\n{definition(op.name, overloaded)} ...\n"
    return f"{text}\n{definition(op.name, loose)}\n{call}\n"


def text_of(ops):
    return HEAD + "".join(method(op) for op in ops)


def main():
    os.environ["ONEPASS_LIBRARY"] = os.path.abspath(sys.argv[1])
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import onepass
    with open(os.path.join(ROOT, "python", "onepass", "_ops.py"), "w", encoding="utf-8") as file:
        file.write(text_of(onepass.ops()))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
