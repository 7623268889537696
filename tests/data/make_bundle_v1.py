"""Makes tests/data/bundle_v1, the version 1 bundle that every later version must load, verify and run.

A tiny segmenter (three convolutions, one linear attention, a head) is trained for half a minute on drawn
street scenes, then exported, compared and packaged by the project's own code, as any network is. Run once,
when version 1 was new: `PYTHONPATH=. python tests/data/make_bundle_v1.py OUT`. It is never made anew.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn

from deploy.bundle import write_bundle
from deploy.labels import read_dataset, read_mask
from deploy.manifest import IMAGENET_MEAN, IMAGENET_STD, Preprocess
from deploy.preprocess import normalise, read_image
from export import package, parity, pictures
from export.source import Source
from export.targets import BuildContext, onnxruntime
from pipeline.datasets.synthetic import generate
from pipeline.models.attention import MultiScaleAttention
from pipeline.models.checkpoints import CheckpointMeta
from pipeline.models.labelmap import LabelMapper

SIZE = (64, 96)
STEPS = 600


class Tiny(nn.Module):
    """`[B, 3, H, W]` -> `[B, classes, ceil(H/8), ceil(W/8)]`, with the attributes of a real segmenter."""

    variant, attention, head_name = "tiny", "linear", "none"

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes
        layers: list[nn.Module] = []
        for c_in, c_out in ((3, 12), (12, 24), (24, 32)):
            layers += [nn.Conv2d(c_in, c_out, 3, 2, 1, bias=False), nn.BatchNorm2d(c_out), nn.Hardswish()]
        self.stem = nn.Sequential(*layers)
        self.context = MultiScaleAttention(32, 16, "linear")
        self.classify = nn.Sequential(nn.Conv2d(32, 32, 3, 1, 1), nn.Hardswish(), nn.Conv2d(32, classes, 1))
        # for freeze_size: a head without upsampling
        self.head = nn.Module()
        self.head.strides, self.head.upsample = (8,), nn.ModuleList()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits at stride 8."""
        x = self.stem(x)
        return self.classify(x + self.context(x))


def train(model: Tiny, folder: Path, rule: Preprocess) -> None:
    """Plain cross-entropy at stride 8."""
    images = sorted((folder / "train" / "images").iterdir())
    masks = [read_mask(folder / "train" / "masks" / f"{path.stem}.png")[4::8, 4::8] for path in images]
    x = torch.from_numpy(np.stack([normalise(read_image(path), rule) for path in images]))
    y = torch.from_numpy(np.stack(masks).astype(np.int64))
    optimizer = torch.optim.AdamW(model.parameters(), 4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for step in range(STEPS):
        batch = torch.from_numpy(np.random.default_rng(step).integers(0, len(x), 24))
        flip = step % 2 == 0
        picture, truth = (x[batch].flip(-1), y[batch].flip(-1)) if flip else (x[batch], y[batch])
        loss = nn.functional.cross_entropy(model(picture), truth, ignore_index=255)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    print(f"loss {loss.item():.3f}")


def main(out: Path) -> None:
    """Draw, train, export, compare, package."""
    torch.manual_seed(1)
    rule = Preprocess(SIZE, IMAGENET_MEAN, IMAGENET_STD, in_graph=False)
    with TemporaryDirectory() as scratch:
        info = read_dataset(generate(Path(scratch) / "scenes", train=160, val=16, size=SIZE, seed=1))
        model = Tiny(len(info.classes))
        train(model, info.root, rule)
        model.eval()
        state = b"".join(tensor.numpy().tobytes() for tensor in model.state_dict().values())
        spec = {"variant": "tiny", "attention": "linear", "classes": model.classes, "head": "none"}
        meta = CheckpointMeta(spec, {"name": info.name, "classes": list(info.classes)})
        source = Source(Path("tiny"), hashlib.sha256(state).hexdigest(), "tiny", meta, info, rule)
        net = LabelMapper(model, SIZE, IMAGENET_MEAN, IMAGENET_STD)
        files = onnxruntime.build(net, BuildContext("fp32", Path(scratch)))
        manifest = package.describe(source, net, onnxruntime, "fp32", "bundle_v1")
        shown = pictures.from_data(info.root, "val", meta, rule)
        answers = parity.ask_checkpoint(model, rule, "bicubic", shown)
        candidate = write_bundle(Path(scratch) / "candidate", manifest, files)
        result = parity.compare(candidate, None, answers, shown)
        budget = onnxruntime.BUDGET["fp32"]
        parity.gate(result, budget, "tiny", info.classes)
        golden, arrays = package.make_golden(manifest, answers, result, shown, budget)
        complete = package.with_evidence(manifest, result, shown, "executed", golden)
        bundle = write_bundle(out, complete, {**files, package.GOLDEN_FILE: arrays})
    accuracy = bundle.manifest.accuracy
    print(
        f"{out}: {sum(entry.bytes for entry in bundle.manifest.files)} bytes, mIoU {accuracy.miou_here:.3f}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
