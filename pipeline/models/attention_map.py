"""`python -m pipeline attention`: what a query attends to, linear and softmax side by side, as a picture.

Both kernels are applied to the queries and keys of one checkpoint, or, with `--compare`, each to those of its
own checkpoint (linear and softmax trained alike). A table gives each layer's entropy and top-1 share: the
known price of linear attention is a flatter map. Refuses to know training.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError
from deploy.options import add_json, output_file, parse_size

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from deploy.preprocess import Image
    from pipeline.models.attention_weights import Layer

Point = tuple[float, float]
KINDS = ("linear", "softmax")
TALLEST_ROW = 12.0  # inches
DEFAULT_POINTS: tuple[Point, ...] = ((0.3, 0.25), (0.5, 0.5), (0.8, 0.6))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--checkpoint, --compare, --image, --out, --at, --layer, --size, --json."""
    parser.add_argument("--checkpoint", required=True, metavar="RUN", help="run, zoo name, folder or file")
    parser.add_argument("--compare", metavar="RUN", help="checkpoint of the other kind, for its own maps")
    parser.add_argument("--image", type=Path, required=True, metavar="FILE")
    parser.add_argument("--out", type=output_file, default="attention.png", metavar="PNG")
    parser.add_argument(
        "--at",
        type=parse_point,
        action="append",
        metavar="Y,X",
        help="a query, as shares of height and width, such as 0.5,0.25 (may be repeated)",
    )
    parser.add_argument(
        "--layer", type=int, default=0, metavar="I", help="attention layer, from 0 (default: 0)"
    )
    parser.add_argument("--size", type=parse_size, metavar="HxW", help="default: the checkpoint's")
    add_json(parser)


def parse_point(text: str) -> Point:
    """argparse type: "0.5,0.25" -> (0.5, 0.25), both in [0, 1]."""
    try:
        y, x = (float(part) for part in text.split(","))
    except ValueError:
        y = x = math.nan
    if not (0 <= y <= 1 and 0 <= x <= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not Y,X with both from 0 to 1")
    return y, x


def run(args: argparse.Namespace) -> int:
    """Draw the picture, print the table, write the JSON file."""
    from deploy.files import write_json

    image, layers = load_layers(args)
    rows = statistics(layers)
    draw(image, layers, args)
    if args.json:
        write_json(args.json, {**asked(args, image), "layers": rows})
    if args.json != "-":
        print_statistics(rows)
        print(f"wrote {args.out}")
    return 0


def asked(args: argparse.Namespace, image: Image) -> dict[str, Any]:
    """What the figures are of: checkpoints, image, its size in the network, queries, pictured layer."""
    return {
        "checkpoints": [name for name in (args.checkpoint, args.compare) if name],
        "image": str(args.image),
        "size": list(image.shape[:2]),
        "queries": [list(point) for point in args.at or DEFAULT_POINTS],
        "pictured_layer": args.layer,
        "picture": str(args.out),
    }


def load_layers(args: argparse.Namespace) -> tuple[Image, dict[str, list[Layer]]]:
    """The image at the network's size, and for either kernel the layers whose queries and keys it gets.

    Raises:
        InputError: from the checkpoint or the image; `--compare` of the same kind; no such layer.
    """
    import torch

    from deploy.preprocess import normalise, pad_colour, read_image, resize_image
    from pipeline.evaluate import preprocess_of
    from pipeline.models.attention_weights import capture
    from pipeline.models.checkpoints import load_checkpoint, resolve_checkpoint

    image, shown, layers = read_image(args.image), None, {}
    for name in filter(None, (args.checkpoint, args.compare)):
        path = resolve_checkpoint(name)
        model, meta = load_checkpoint(path)
        rule = preprocess_of(meta, path, args.size)
        resized = resize_image(image, rule.size, rule.resize, rule.interpolation, pad_colour(rule))
        with capture(model) as found, torch.inference_mode():
            model(torch.from_numpy(normalise(resized, rule))[None])
        if model.attention in layers:
            raise InputError(f"--compare {args.compare}", f"{model.attention} attention", "the other kind")
        layers[model.attention] = found
        shown = resized if shown is None else shown
    count = len(layers[next(iter(layers))])
    if not 0 <= args.layer < count:
        raise InputError("--layer", args.layer, f"0..{count - 1}")
    if len({(len(found), found[0].height, found[0].width) for found in layers.values()}) > 1:
        raise InputError(f"--compare {args.compare} differs in variant or size", fix="give --size HxW")
    only = next(iter(layers.values()))
    assert shown is not None, "one checkpoint at least is required"
    return shown, {kind: layers.get(kind, only) for kind in KINDS}


def statistics(layers: dict[str, list[Layer]]) -> list[dict[str, Any]]:
    """Per layer and kernel: entropy (1: flat) and mean top-1 share; None where no query has weights."""
    from pipeline.models.attention_weights import WEIGHTS, flatness, spread

    rows = []
    for index, layer in enumerate(layers["linear"]):
        row: dict[str, Any] = {"layer": index, "name": layer.name, "tokens": layer.key.shape[-1]}
        for kind, of in WEIGHTS.items():
            chosen = layers[kind][index]
            weights = of(chosen.query[:, :, spread(row["tokens"])], chosen.key)
            values = dict(zip(("entropy", "top1"), flatness(weights), strict=True))
            row[kind] = {key: None if math.isnan(value) else value for key, value in values.items()}
        rows.append(row)
    return rows


def print_statistics(rows: list[dict[str, Any]]) -> None:
    """The table."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    table = Table(title="flatness of attention (entropy 1: flat)", title_justify="left", box=SIMPLE)
    for column in (
        "layer",
        "tokens",
        "entropy\nlinear",
        "entropy\nsoftmax",
        "top-1\nlinear",
        "top-1\nsoftmax",
    ):
        table.add_column(column, justify="right")
    for row in rows:
        figures = [row[kind][key] for key in ("entropy", "top1") for kind in KINDS]
        shown = ("-" if value is None else f"{value:.3f}" for value in figures)
        table.add_row(str(row["layer"]), str(row["tokens"]), *shown)
    Console().print(table)


def weight_map(layer: Layer, kind: str, point: Point) -> npt.NDArray[np.float64]:
    """Weights of the query at `point` over all tokens, mean over heads: `[h, w]`, sum at most 1."""
    from pipeline.models.attention_weights import WEIGHTS

    y = min(int(point[0] * layer.height), layer.height - 1)
    x = min(int(point[1] * layer.width), layer.width - 1)
    token = y * layer.width + x
    weights = WEIGHTS[kind](layer.query[:, :, token : token + 1], layer.key)
    return weights.mean(0)[0].reshape(layer.height, layer.width).numpy()


def draw(image: Image, layers: dict[str, list[Layer]], args: argparse.Namespace) -> None:
    """A row a query: the image with the query marked, its map under linear and under softmax attention.

    Every map has its own scale, in multiples of the mean weight 1/N, so that a flat one can be read, too.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    from pipeline.picture import save_figure

    points, shape = args.at or DEFAULT_POINTS, image.shape[:2]
    row = min(2.85 * shape[0] / shape[1], TALLEST_ROW) + 0.12
    figure = Figure(figsize=(10, row * len(points) + 0.7), layout="constrained")
    axes = figure.subplots(len(points), 3, squeeze=False)
    for row, point in zip(axes, points, strict=True):
        row[0].imshow(image)
        _mark(row[0], point, shape)
        for cell, kind in zip(row[1:], KINDS, strict=True):
            shown = _overlay(cell, image, weight_map(layers[kind][args.layer], kind, point))
            _mark(cell, point, shape)
            scale = figure.colorbar(shown, ax=cell, pad=0.02, ticks=MaxNLocator(4), format="%g×")
            scale.ax.tick_params(labelsize=11)
    for cell, title in zip(axes[0], ("query (+)", *(f"{kind} attention" for kind in KINDS)), strict=True):
        cell.set_title(title, fontsize=14)
    layer = layers["linear"][args.layer]
    tokens = f"attention layer {args.layer}, {layer.height}x{layer.width} tokens"
    figure.suptitle(f"{tokens}: weight as a multiple of the mean weight, mean over heads", fontsize=13)
    save_figure(figure, Path(args.out))


def _overlay(axes: Axes, image: Image, weights: npt.NDArray[np.float64]) -> AxesImage:
    """The weights over the image in grey: light where small, dark where large."""
    height, width = image.shape[:2]
    relative = weights * weights.size
    extent = (0, width, height, 0)
    axes.imshow(image.mean(-1), cmap="gray", vmin=0, vmax=255, extent=extent)
    return axes.imshow(relative, cmap="YlGnBu", alpha=0.78, extent=extent, vmin=0)


def _mark(axes: Axes, point: Point, shape: tuple[int, ...]) -> None:
    """A cross at the query, dark with a light rim: visible on any ground."""
    height, width = shape
    place = (point[1] * (width - 1), point[0] * (height - 1))
    axes.plot(*place, "+", color="white", ms=18, mew=5)
    axes.plot(*place, "+", color="black", ms=15, mew=2)
    axes.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[])
