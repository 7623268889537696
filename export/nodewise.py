"""An ONNX graph run by onnxruntime node by node, so that every tensor is rounded as it is declared.

As a whole, onnxruntime runs float16 chains in float32 on processors without half arithmetic, and drops the
Casts between: a value that overflows in half precision comes out right, and proves nothing. Node by node,
each result is a float16 array before the next node sees it; sums inside a node accumulate in float32, as on
GPUs. It also shows every tensor. Refuses to know whose graph it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, ValueInfoProto, helper

from deploy.bundle import Bundle
from export.trace import infer

Array = npt.NDArray[Any]
Watch = Callable[[NodeProto, str, Array], None]


class Nodewise:
    """A graph, ready to run. One thread: hundreds of sessions with threads of their own block each other."""

    def __init__(self, model: ModelProto) -> None:
        self._model = model
        self._outputs = [value.name for value in model.graph.output]
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        graph = infer(model).graph
        self._values = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
        self._steps = [(node, self._session(node)) for node in model.graph.node]
        self._uses = Counter(name for node in model.graph.node for name in node.input)
        self._uses.update(self._outputs)

    def run(self, feeds: Mapping[str, Array], watch: Watch | None = None) -> dict[str, Array]:
        """The graph's outputs; `watch` sees every tensor that a node computes, by name."""
        values, left = dict(feeds), self._uses.copy()
        for node, session in self._steps:
            given = [name for name in dict.fromkeys(node.input) if name in values]
            found = session.run(None, {name: values[name] for name in given})
            for name, array in zip(node.output, found, strict=True):
                values[name] = array
                if watch:
                    watch(node, name, array)
            left.subtract(name for name in node.input if name in values)
            for name in [name for name in (*given, *node.output) if left[name] <= 0]:
                del values[name]
        return {name: values[name] for name in self._outputs}

    def _session(self, node: NodeProto) -> Any:
        import onnxruntime

        names = [name for name in dict.fromkeys(node.input) if name]
        graph = helper.make_graph(
            [node],
            node.name,
            [self._values[name] for name in names if name not in self._constants],
            [self._values.get(name, ValueInfoProto(name=name)) for name in node.output],
            [self._constants[name] for name in names if name in self._constants],
        )
        single = helper.make_model(graph, opset_imports=self._model.opset_import)
        single.ir_version = self._model.ir_version
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(single.SerializeToString(), options, ["CPUExecutionProvider"])


class NodewiseSession:
    """The bundle's one .onnx file as a runtime session; `threads` is not used."""

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        self._graph = Nodewise(onnx.load(bundle.model_file(".onnx")))
        self._input, self._output = bundle.manifest.inputs[0].name, bundle.manifest.outputs[0].name

    def run(self, array: Array) -> Array:
        """One inference: array of the manifest's first input -> array of its first output."""
        return self._graph.run({self._input: array})[self._output]

    def close(self) -> None:
        """Nothing to free before the object goes."""

    def versions(self) -> dict[str, str]:
        """{"onnxruntime": version}."""
        import onnxruntime

        return {"onnxruntime": str(onnxruntime.__version__)}
