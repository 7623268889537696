"""A .tflite file opened up: its operators' names, and another tensor as its output.

The latter serves to measure errors of a label-map artifact in the artifact's own graph. Refuses to know what
the network computes. Source: LiteRT's schema (Apache-2.0), by the classes that its package generates from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

IDENTIFIER = b"TFL3"


def with_output(source: Path, shape: Sequence[int], out: Path) -> Path:
    """Write `source` ending at the last float32 tensor `[B, *shape]` that is computed; returns `out`."""
    content = source.read_bytes()
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(bytearray(content), 0))
    _take_in(model, content)
    graph = model.subgraphs[0]
    computed = [index for operator in graph.operators for index in operator.outputs]
    found = [index for index in computed if _is_float(graph.tensors[index], shape)]
    graph.outputs = [found[-1]]
    for signature in model.signatureDefs or []:
        signature.outputs[0].tensorIndex = found[-1]
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), IDENTIFIER)
    out.write_bytes(builder.Output())
    return out


def first_output(source: Path, operator: str) -> str:
    """Name of what the first operator of that type (a name of `schema.BuiltinOperator`) computes."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(bytearray(source.read_bytes()), 0))
    graph, wanted = model.subgraphs[0], getattr(schema.BuiltinOperator, operator)
    first = next(op for op in graph.operators if model.operatorCodes[op.opcodeIndex].builtinCode == wanted)
    return str(graph.tensors[first.outputs[0]].name.decode())


def _take_in(model: schema.ModelT, content: bytes) -> None:
    """Constants that the quantiser stores behind the graph become part of it again."""
    for buffer in model.buffers:
        if buffer.offset > 1:
            buffer.data = np.frombuffer(content, np.uint8, buffer.size, buffer.offset)
            buffer.offset = buffer.size = 0


def _is_float(tensor: schema.TensorT, shape: Sequence[int]) -> bool:
    return tensor.type == schema.TensorType.FLOAT32 and list(tensor.shape[1:]) == list(shape)
