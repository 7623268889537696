"""What the benchmarks run: a B0 with the Cityscapes head, its checkpoint, its graphs, and drawn scenes.

No trained weights are needed to measure speed, but sane activations are (vanishing ones are slow on some
processors, and label maps of one class prove nothing): weights come from a seed, the classifier's bias from a
drawn scene. Refuses to know what is measured.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deploy.child import call
from deploy.manifest import IMAGENET_MEAN, IMAGENET_STD
from deploy.preprocess import Image, Size
from export.targets import BuildContext, onnxruntime
from export.trace import OPSET
from pipeline.datasets.synthetic import draw_sample
from pipeline.models.checkpoints import CheckpointMeta, save_checkpoint
from pipeline.models.efficientvit import EfficientViTSeg, create_model
from pipeline.models.labelmap import LabelMapper
from pipeline.normalise import Normalise

CLASSES = 19


def scene(size: Size) -> Image:
    """One drawn street scene, `[H, W, 3]` uint8 RGB, always the same for one size."""
    return draw_sample(0, "val", 0, size)[0]


def normalised(frame: Image) -> Tensor:
    """`[H, W, 3]` uint8 -> `[1, 3, H, W]` float32, the network's input."""
    return Normalise(torch.device("cpu"))(torch.from_numpy(frame)[None]).contiguous()


def seeded_model(size: Size, attention: str = "linear", seed: int = 0) -> EfficientViTSeg:
    """A B0 of 19 classes in eval mode with seeded weights whose activations spread as trained ones do.

    The classifier's bias makes all classes equal on average over the drawn scene of `size`, so that many are
    the answer somewhere.
    """
    torch.manual_seed(seed)
    model = create_model("b0", CLASSES, attention)
    with torch.no_grad():
        for module in model.eval().modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5)
            elif isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.05)
                module.running_var.uniform_(0.5, 1.5)
        model.head.classifier.bias.sub_(model(normalised(scene(size))).mean(dim=(0, 2, 3)))
    return model


def save(model: EfficientViTSeg, path: Path) -> Path:
    """The model as a checkpoint file; returns `path`."""
    spec = {"variant": "b0", "attention": model.attention, "classes": CLASSES, "head": model.head_name}
    save_checkpoint(
        path,
        model.state_dict(),
        CheckpointMeta(spec, preprocess={"mean": IMAGENET_MEAN, "std": IMAGENET_STD}),
    )
    return path


def build_bundle(checkpoint: Path, size: Size, out: Path) -> Path:
    """Export as a user does, with the parity gate of `export build`; returns the bundle's folder.

    Raises:
        ChildFailed: the build failed; its last words are in the message.
    """
    words = ["export", "build", "--checkpoint", str(checkpoint), "--target", "onnxruntime"]
    call(*words, "--size", f"{size[0]}x{size[1]}", "--out", str(out))
    return out


def export_ours(net: LabelMapper, folder: Path) -> Path:
    """The graph that the onnxruntime target makes, in a new folder; returns its file."""
    folder.mkdir()
    return onnxruntime.build(net, BuildContext("fp32", folder))[onnxruntime.MODEL_FILE]


def export_plainly(module: nn.Module, inputs: dict[str, Tensor], path: Path, dynamo: bool = True) -> Path:
    """`torch.onnx.export` as it comes, at the sizes of `inputs`; returns `path`.

    Args:
        dynamo: False takes the older exporter, by TorchScript.
    """
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names, values = list(inputs), tuple(inputs.values())
        torch.onnx.export(
            module,
            values,
            str(path),
            dynamo=dynamo,
            opset_version=OPSET,
            input_names=names,
            external_data=False,
            verbose=False,
        )
    return path


def save_inputs(path: Path, **arrays: Any) -> Path:
    """Arrays by name as the .npz that a child process reads; returns `path`."""
    np.savez(path, **{name: np.asarray(value) for name, value in arrays.items()})
    return path
