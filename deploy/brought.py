"""A model of the user's own, one ONNX file, measured beside our bundles: latency only, and marked so.

It is wrapped as a bundle in a temporary folder, so that the same code times it, on noise. Refuses to speak
of accuracy: nothing is known of its classes, of its training or of the input it expects.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.bundle import Bundle, load_bundle, write_bundle
from deploy.errors import InputError
from deploy.files import sha256_file
from deploy.manifest import ClassInfo, Manifest, Preprocess, Provenance, Target, TensorSpec

LATENCY_ONLY = "brought model: latency only"
_DTYPES = {"tensor(float)": "float32", "tensor(float16)": "float16"} | {
    f"tensor({name})": name for name in ("uint8", "int32", "int64")
}
_FIXED = "export it with one image of a fixed size, (1, 3, H, W) or (1, H, W, 3)"


def is_brought(path: Path) -> bool:
    """Whether the path is an ONNX file and not a bundle's folder."""
    return path.suffix.lower() == ".onnx" and path.is_file()


@contextmanager
def opened(path: Path, domain: str | None = None) -> Iterator[Bundle]:
    """The bundle at `path`, or its domain; an ONNX file is wrapped as one for as long as the block lasts.

    Raises:
        InputError: no bundle, or an ONNX file that does not segment one image of a fixed size.
    """
    if not is_brought(path):
        yield load_bundle(path, domain=domain)
        return
    if domain:
        raise InputError("--domain", got=f"a model of your own, {path}", expected="a bundle")
    with tempfile.TemporaryDirectory(prefix="edgeseg-") as folder:
        yield write_bundle(Path(folder) / path.stem, _manifest(path), {"model.onnx": path})


def _manifest(path: Path) -> Manifest:
    inputs, outputs = _signature(path)
    if len(inputs) != 1 or not outputs:
        raise InputError(f"{path}: inputs", got=len(inputs), expected="one image")
    frame = _frame(inputs[0], path)
    size = frame.shape[1:3] if frame.layout == "NHWC" else frame.shape[2:]
    labels, classes = _labels(outputs[0], size, path)
    return Manifest(
        name=path.stem,
        target=Target("onnxruntime", frame.dtype.replace("float", "fp")),
        inputs=(frame,),
        outputs=(labels,),
        preprocess=Preprocess(
            (size[0], size[1]), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), in_graph=frame.dtype == "uint8"
        ),
        classes=tuple(ClassInfo(number, f"class {number}", (0, 0, 0)) for number in range(classes)),
        provenance=Provenance(None, sha256_file(path), {}, {}, {"variant": path.stem}),
    )


def _signature(path: Path) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs as ONNX Runtime sees them."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # its exception classes share no public base
        raise InputError(f"ONNX Runtime cannot load {path}", got=error) from error
    return list(session.get_inputs()), list(session.get_outputs())


def _frame(node: Any, path: Path) -> TensorSpec:
    shape = tuple(node.shape)
    if not all(isinstance(side, int) for side in shape) or len(shape) != 4 or shape[0] != 1:
        raise InputError(f"{path}: input {node.name}", got=node.shape, expected="fixed sizes", fix=_FIXED)
    if 3 not in (shape[1], shape[3]):
        expected = "one RGB frame, (1, 3, H, W) or (1, H, W, 3)"
        raise InputError(f"{path}: input {node.name}", got=node.shape, expected=expected)
    return TensorSpec(node.name, _dtype(node, path), shape, "NCHW" if shape[1] == 3 else "NHWC")


def _labels(node: Any, size: tuple[int, ...], path: Path) -> tuple[TensorSpec, int]:
    """The output, and how many classes it tells apart (two, where a label map does not say)."""
    shape = tuple(node.shape)
    if len(shape) == 3 and shape[1:] == size:
        return TensorSpec(node.name, _dtype(node, path), shape, "NHW"), 2
    if len(shape) != 4 or not all(isinstance(side, int) for side in shape):
        expected = f"logits (1, classes, h, w), or a label map (1, {size[0]}, {size[1]})"
        raise InputError(f"{path}: output {node.name}", got=node.shape, expected=expected)
    planes = shape[1] <= shape[3]
    spec = TensorSpec(node.name, _dtype(node, path), shape, "NCHW" if planes else "NHWC")
    return spec, shape[1] if planes else shape[3]


def _dtype(node: Any, path: Path) -> str:
    if node.type not in _DTYPES:
        raise InputError(f"{path}: {node.name}", got=node.type, expected=", ".join(_DTYPES))
    return _DTYPES[node.type]
