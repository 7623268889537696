"""Another execution provider of ONNX Runtime than the bundle's own, by a short name: cpu, cuda, tensorrt, ...

The parts of a network that a provider does not take run on the CPU, as ONNX Runtime arranges it. Refuses to
fall back as a whole: a provider that is not there is an error. Source: ONNX Runtime's list of providers.
"""

from __future__ import annotations

from dataclasses import replace

from deploy.bundle import Bundle
from deploy.errors import InputError

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "nnapi": "NnapiExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "xnnpack": "XnnpackExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "directml": "DmlExecutionProvider",
}


def with_provider(bundle: Bundle, name: str | None) -> Bundle:
    """The bundle, to be run by that provider; None leaves the bundle's own.

    Raises:
        InputError: the bundle is not ONNX Runtime's, or an unknown name.
    """
    if name is None:
        return bundle
    target = bundle.manifest.target
    if target.runtime != "onnxruntime":
        raise InputError("--provider", got=f"a bundle for {target.runtime}", expected="one for onnxruntime")
    if name not in PROVIDERS:
        raise InputError("--provider", got=name, expected=", ".join(PROVIDERS))
    chosen = dict.fromkeys([PROVIDERS[name], PROVIDERS["cpu"]])
    options = {**target.options, "providers": ",".join(chosen)}
    return replace(bundle, manifest=replace(bundle.manifest, target=replace(target, options=options)))
