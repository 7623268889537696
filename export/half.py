"""An ONNX graph in half precision, strongly typed: float16 tensors, and Casts around nodes that stay float32.

Nothing is changed silently: a constant that float16 cannot hold is an error unless its node stays float32
(the usual tools move it to the nearest number they can hold). Inputs and outputs keep their types. Refuses
to know why a node should stay float32 (`export/ranges.py`), and what runs the graph.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from deploy.errors import GateError
from export.trace import infer

_FLOAT, _HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def to_half(model: ModelProto, keep: Collection[str] = ()) -> ModelProto:
    """A copy of a float32 model in float16; the nodes named in `keep` stay float32.

    Raises:
        GateError: a constant of a float16 node is too large for it, or a single number that becomes 0.
    """
    return _Converter(model, frozenset(keep)).run()


class _Converter:
    """Walks the nodes once, in order, with the type that every value has in the new graph."""

    def __init__(self, model: ModelProto, keep: frozenset[str]) -> None:
        self._model, self._keep = model, keep
        values = [*infer(model).graph.value_info, *model.graph.input, *model.graph.output]
        constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self._constants = {name: t for name, t in constants.items() if t.data_type == _FLOAT}
        floats = {value.name for value in values if value.type.tensor_type.elem_type == _FLOAT}
        self._floats = floats | set(self._constants)
        self._types = {value.name: _FLOAT for value in model.graph.input}
        self._made: dict[str, TensorProto] = {}
        self._nodes: list[NodeProto] = []
        self._cast: set[str] = set()

    def run(self) -> ModelProto:
        """The new model."""
        new = ModelProto()
        new.CopyFrom(self._model)
        outputs = {value.name for value in self._model.graph.output} & self._floats
        for node in self._model.graph.node:
            self._convert(node, outputs)
        for tensor in self._model.graph.initializer:
            if tensor.name not in self._constants:
                self._made[tensor.name] = tensor
        del new.graph.node[:], new.graph.initializer[:], new.graph.value_info[:]
        new.graph.node.extend(self._nodes)
        new.graph.initializer.extend(self._made.values())
        infer(new)  # the types must fit, everywhere
        return new

    def _convert(self, node: NodeProto, outputs: set[str]) -> None:
        new = NodeProto()
        new.CopyFrom(node)
        wanted = _FLOAT if node.name in self._keep else _HALF
        for index, name in enumerate(node.input):
            if name in self._floats and node.op_type != "Cast":
                new.input[index] = self._as_type(name, wanted, node)
        if node.op_type == "Cast":
            _retarget(new, wanted)
        self._nodes.append(new)
        for index, name in enumerate(node.output):
            if name in outputs and wanted == _HALF:
                new.output[index] = f"{name}_half"
                self._nodes.append(_cast(new.output[index], name, _FLOAT))
            elif name in self._floats:
                self._types[name] = wanted

    def _as_type(self, name: str, wanted: int, node: NodeProto) -> str:
        """The name under which a float value is had in the wanted type; made if it is not there yet."""
        if name in self._constants:
            return self._constant(name, wanted, node)
        if self._types[name] == wanted:
            return name
        converted = f"{name}_{'half' if wanted == _HALF else 'float'}"
        if converted not in self._cast:
            self._cast.add(converted)
            self._nodes.append(_cast(name, converted, wanted))
        return converted

    def _constant(self, name: str, wanted: int, node: NodeProto) -> str:
        if wanted == _FLOAT:
            self._made[name] = self._constants[name]
            return name
        converted = f"{name}_half"
        if converted not in self._made:
            array = _checked_half(numpy_helper.to_array(self._constants[name]), name, node)
            self._made[converted] = numpy_helper.from_array(array, converted)
        return converted


def _cast(source: str, name: str, to: int) -> NodeProto:
    return helper.make_node("Cast", [source], [name], name=f"cast_to_{name}", to=to)


def _retarget(cast: NodeProto, wanted: int) -> None:
    """A Cast to float32 becomes one to the type of its surroundings."""
    (to,) = (attribute for attribute in cast.attribute if attribute.name == "to")
    if to.i == _FLOAT:
        to.i = wanted


def _checked_half(array: np.ndarray, name: str, node: NodeProto) -> np.ndarray:
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    lost = np.isinf(half) & np.isfinite(array)
    vanished = array.size == 1 and bool(array.any()) and not half.any()
    if lost.any() or vanished:
        fix = "keep the node in float32"
        got = f"{array.flat[int(lost.argmax())]:.6g}"
        raise GateError(
            f"{node.op_type} {node.name}: constant {name} in half precision", got, "6e-8..65504", fix
        )
    return half
