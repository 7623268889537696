"""Running a saved ML Program operation by operation, without Apple's runtime.

Every result is compared with the type and shape that the program declares for it. What is not known is
refused by name; nothing is skipped. Refuses to know packages and pictures.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.errors import GateError
from export.mil.arithmetic import SAVED, Arithmetic
from export.mil.operations import OPERATIONS
from export.mil.program import Literal, Operation, Program, TensorType

Array = npt.NDArray[Any]
Watch = Callable[[Operation, Array], None]
_FLOATS = ("float16", "float32")


def evaluate(
    program: Program, inputs: Mapping[str, Array], arithmetic: Arithmetic = SAVED, watch: Watch | None = None
) -> dict[str, Array]:
    """The program's outputs.

    Args:
        inputs: by name, of the declared shapes.
        watch: called with every operation that computes (not constants) and each of its results.

    Raises:
        GateError: an operation or a parameter that is not known, or a result other than declared.
    """
    values: dict[str, Array] = {}
    for name, declared in program.inputs.items():
        values[name] = _as_declared(np.asarray(inputs[name]), declared, name)
    last_use = _last_uses(program)
    with np.errstate(all="ignore"):  # infinities and nans are results here, and parity's to judge
        for index, operation in enumerate(program.operations):
            for name, result in _run(operation, values, arithmetic):
                values[name] = result
                if watch and operation.kind != "const":
                    watch(operation, result)
            for name in last_use.get(index, ()):
                del values[name]
    return {name: values[name] for name in program.outputs}


def count_kinds(program: Program) -> Counter[str]:
    """Operations by kind, without constants."""
    return Counter(operation.kind for operation in program.operations if operation.kind != "const")


def _run(
    operation: Operation, values: Mapping[str, Array], arithmetic: Arithmetic
) -> Iterator[tuple[str, Array]]:
    function = OPERATIONS.get(operation.kind)
    if function is None:
        raise _refusal(operation, f"operation {operation.kind}")
    types = list(operation.outputs.values())
    math = replace(arithmetic, half=types[0].dtype == "float16")
    arguments = {key: _argument(value, values) for key, value in operation.arguments.items()}
    try:
        inspect.signature(function).bind(math, **arguments)
        found = function(math, **arguments)
    except (TypeError, NotImplementedError) as error:
        raise _refusal(operation, f"{operation.kind} with {error}") from error
    results = found if isinstance(found, list) else [found]
    if len(results) != len(types):
        raise _refusal(operation, f"{len(results)} results for {len(types)} declared")
    for (name, declared), result in zip(operation.outputs.items(), results, strict=True):
        finished = math.finish(result) if declared.dtype in _FLOATS and operation.kind != "const" else result
        yield name, _as_declared(finished, declared, name)


def _argument(argument: tuple[str, ...] | Literal, values: Mapping[str, Array]) -> Any:
    """A value, or a tuple of them where an operation takes several (`concat`)."""
    if isinstance(argument, Literal):
        return argument.value
    return values[argument[0]] if len(argument) == 1 else tuple(values[name] for name in argument)


def _as_declared(value: Any, declared: TensorType, name: str) -> Any:
    """A value as it is kept: floats as float32, words and single numbers as they are."""
    if isinstance(value, (str, bool, int, float)):
        return value
    kept = "float32" if declared.dtype in _FLOATS else declared.dtype
    array = np.asarray(value)
    if array.dtype.kind == "f" and kept == "float32":
        array = array.astype(np.float32, copy=False)
    if array.shape != declared.shape or array.dtype != kept:
        got, expected = f"{array.dtype} {array.shape}", f"{declared.dtype} {declared.shape}"
        raise GateError(f"Core ML program: value {name}", got, expected, "the evaluator or the file is wrong")
    return array


def _refusal(operation: Operation, what: str) -> GateError:
    return GateError(
        f"the evaluator of Core ML programs does not know {what}",
        got=f"{operation.kind} {operation.name}",
        expected=f"one of {', '.join(OPERATIONS)}",
        fix="add it to export/mil/operations.py, with its test",
    )


def _last_uses(program: Program) -> dict[int, list[str]]:
    """After which operation which values are not needed any more, so that memory stays small."""
    last: dict[str, int] = {}
    for index, operation in enumerate(program.operations):
        for argument in operation.arguments.values():
            if not isinstance(argument, Literal):
                last.update(dict.fromkeys(argument, index))
    uses: dict[int, list[str]] = {}
    for name, index in last.items():
        if name not in program.outputs:
            uses.setdefault(index, []).append(name)
    return uses
