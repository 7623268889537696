"""The checkpoint to be exported: which file, its name, and its description as the manifest needs it.

What a checkpoint does not say gets a default (imported weights know no classes): ImageNet normalisation,
numbered class names, distinct colours. Refuses to know targets and bundles' files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.errors import InputError
from deploy.files import sha256_file
from deploy.labels import DatasetInfo, default_palette
from deploy.manifest import ClassInfo, Preprocess
from pipeline.evaluate import preprocess_of
from pipeline.models.checkpoints import CheckpointMeta, read_meta, resolve_checkpoint

_NAMELESS = ("best.safetensors", "last.safetensors", "model.safetensors")
_DATASET = {"modality": "rgb", "source": "", "licence": "", "ignore_index": None}


@dataclass(frozen=True)
class Source:
    """A checkpoint file, described.

    Args:
        path, sha256: the file. name: of the run or zoo entry, else the file's own.
        dataset: the data it was trained on; `root` is the checkpoint's folder.
        preprocess: how frames are prepared (not in the graph); its size is the training's.
    """

    path: Path
    sha256: str
    name: str
    meta: CheckpointMeta
    dataset: DatasetInfo
    preprocess: Preprocess

    @property
    def classes(self) -> tuple[ClassInfo, ...]:
        """Ids, names and colours, as in the manifest."""
        pairs = zip(self.dataset.classes, self.dataset.palette, strict=True)
        return tuple(ClassInfo(index, name, colour) for index, (name, colour) in enumerate(pairs))


def read_source(checkpoint: str, size: tuple[int, int] | None) -> Source:
    """Find and describe a checkpoint; `size` (H, W) takes the place of the training's.

    Raises:
        InputError: no such checkpoint, a description that cannot be used, or no size from anywhere.
    """
    path = resolve_checkpoint(checkpoint)
    meta = read_meta(path)
    return Source(
        path, sha256_file(path), _name(path), meta, _dataset(path, meta), preprocess_of(meta, path, size)
    )


def _name(path: Path) -> str:
    """runs/NAME/train/best.safetensors and zoo/NAME/model.safetensors -> NAME."""
    if path.name not in _NAMELESS:
        return path.stem
    folder = path.resolve().parent
    return folder.parent.name if folder.name == "train" else folder.name


def _dataset(path: Path, meta: CheckpointMeta) -> DatasetInfo:
    count = meta.model["classes"]
    names = meta.dataset.get("classes") or [f"class_{index}" for index in range(count)]
    palette = meta.dataset.get("palette") or default_palette(count)
    if len(names) != count or len(palette) != count:
        got = f"{len(names)} names, {len(palette)} colours"
        raise InputError(f"checkpoint {path}: classes", got, f"{count}, as the model has")
    values: dict[str, Any] = {**_DATASET, **meta.dataset, "name": meta.dataset.get("name", "unknown data")}
    return DatasetInfo(
        name=str(values["name"]),
        modality=str(values["modality"]),
        classes=tuple(map(str, names)),
        palette=tuple((int(red), int(green), int(blue)) for red, green, blue in palette),
        ignore_index=values["ignore_index"],
        source=str(values["source"]),
        licence=str(values["licence"]),
        root=path.parent,
    )
