"""The checkpoint to be exported: which file, its name, and its description as the manifest needs it.

What a checkpoint does not say gets a default. Refuses to know targets and bundles' files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deploy.files import sha256_file
from deploy.labels import DatasetInfo
from deploy.manifest import ClassInfo, Preprocess
from pipeline.evaluate import preprocess_of
from pipeline.models.checkpoints import CheckpointMeta, dataset_of, read_meta, resolve_checkpoint

_NAMELESS = ("best.safetensors", "last.safetensors", "model.safetensors")


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
        path, sha256_file(path), _name(path), meta, dataset_of(meta, path), preprocess_of(meta, path, size)
    )


def _name(path: Path) -> str:
    """runs/NAME/train/best.safetensors and zoo/NAME/model.safetensors -> NAME."""
    if path.name not in _NAMELESS:
        return path.stem
    folder = path.resolve().parent
    return folder.parent.name if folder.name == "train" else folder.name
