"""Surgery on a .tflite file: another tensor as its output.

Serves to measure errors of a label-map artifact in the artifact's own graph. Refuses to know what the network
computes. Source: LiteRT's schema (Apache-2.0), by the classes that its package generates from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import flatbuffers
from ai_edge_litert import schema_py_generated as schema

IDENTIFIER = b"TFL3"


def with_output(source: Path, shape: Sequence[int], out: Path) -> Path:
    """Write `source` ending at the last float32 tensor `[B, *shape]` that is computed; returns `out`."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(bytearray(source.read_bytes()), 0))
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


def _is_float(tensor: schema.TensorT, shape: Sequence[int]) -> bool:
    return tensor.type == schema.TensorType.FLOAT32 and list(tensor.shape[1:]) == list(shape)
