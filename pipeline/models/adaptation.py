"""What a new domain adds to a base segmenter, and what of the base it may move: the methods of `adapt`.

    adapter   bottleneck adapters in the attention blocks, normalisation's scale and shift
    adapter-all   the same, and adapters behind the backbone's local blocks
    lora      low-rank additions to the attention blocks' 1x1 convolutions, scale and shift
    norm      normalisation's scale and shift (and the biases that stand in for them)
    head      nothing but the head
    top-1, top-2, top-4   the backbone's last blocks and the whole head
    full      everything

Each trains the head's last convolution too, since the classes are new; `head="full"` trains the whole head.
Everything else is frozen: no gradient, and with `bn_stats="frozen"` no running statistic moves in training.

Refuses to know training, files, domains' data. Sources of the methods: Houlsby et al., ICML 2019 (adapters;
the comparison with norms alone and with the top layers); LoRA: Hu et al., ICLR 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from deploy.errors import InputError
from pipeline.models.adapters import insert_adapters, insert_low_rank
from pipeline.models.efficientvit import MAX_CLASSES, EfficientViTSeg

METHODS = ("adapter", "adapter-all", "lora", "norm", "head", "top-1", "top-2", "top-4", "full")
WITH_BOTTLENECK = ("adapter", "adapter-all", "lora")  # those that have a width or rank r
HEADS = ("classifier", "full")
STATISTICS = ("frozen", "domain")


@dataclass(frozen=True)
class Adaptation:
    """How a base model becomes a domain's.

    Attributes:
        method: one of `METHODS`. bottleneck: width r of adapters, rank r of low-rank additions.
        head: "classifier" (its last convolution) or "full". bn_stats: "frozen" keeps the base's running
        statistics, "domain" takes the domain's.
    """

    method: str
    bottleneck: int = 8
    head: str = "classifier"
    bn_stats: str = "frozen"

    def __post_init__(self) -> None:
        """Raise InputError for a value that is none of these."""
        for what, value, known in (
            ("method", self.method, METHODS),
            ("head", self.head, HEADS),
            ("bn_stats", self.bn_stats, STATISTICS),
        ):
            if value not in known:
                raise InputError(
                    f"unknown {what} of an adaptation", repr(value), f"one of {', '.join(known)}"
                )
        if type(self.bottleneck) is not int or not 1 <= self.bottleneck <= 1024:
            raise InputError("bottleneck out of range", repr(self.bottleneck), "1..1024")


def adapt(model: EfficientViTSeg, classes: int, how: Adaptation) -> None:
    """Change a base model in place: new classes, new parts, and what is frozen.

    The new parts start as nothing, so features are the base's; the last convolution is fresh.

    Raises:
        InputError: a number of classes out of range.
    """
    if not 1 <= classes <= MAX_CLASSES:
        raise InputError("number of classes out of range", classes, f"1..{MAX_CLASSES}")
    _replace_classifier(model, classes)
    if how.method in ("adapter", "adapter-all"):
        insert_adapters(model, how.bottleneck, local=how.method == "adapter-all")
    elif how.method == "lora":
        insert_low_rank(model, how.bottleneck)
    trained = set(trained_parameters(model, how))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)
    model.moving_statistics = how.bn_stats == "domain"
    model.train(model.training)


def trained_parameters(model: EfficientViTSeg, how: Adaptation) -> list[str]:
    """Names of the parameters that a method trains, in the model's order."""
    prefixes = [*_head_prefixes(model, how), *_top_blocks(model, how)]
    norms = _scales_and_shifts(model) if how.method in (*WITH_BOTTLENECK, "norm") else set()
    names = [name for name, _ in model.named_parameters()]
    if how.method == "full":
        return names
    return [name for name in names if name.startswith(tuple(prefixes)) or name in norms or _is_added(name)]


def domain_tensors(model: EfficientViTSeg, how: Adaptation) -> list[str]:
    """Names of all tensors that a domain brings beside its base: trained ones, and statistics if its own."""
    trained = set(trained_parameters(model, how))
    own = how.bn_stats == "domain"
    statistics = {name for name, _ in model.named_buffers() if name.rpartition(".")[2] in _STATISTICS}
    return [name for name in model.state_dict() if name in trained or (own and name in statistics)]


def count_parameters(model: EfficientViTSeg, how: Adaptation) -> dict[str, int]:
    """Trained parameters by kind: "adapters", "low rank", "norms", "blocks", "head"; and "all", of the model.

    "norms": scales, shifts and the biases that stand in for them. "all" includes what the method added.
    """
    counts = dict.fromkeys(("adapters", "low rank", "norms", "blocks", "head"), 0)
    head, trained = tuple(_head_prefixes(model, how)), set(trained_parameters(model, how))
    norms = _scales_and_shifts(model)
    for name, parameter in model.named_parameters():
        if name in trained:
            counts[_kind(name, norms, head)] += parameter.numel()
    return counts | {"all": sum(parameter.numel() for parameter in model.parameters())}


def _kind(name: str, norms: set[str], head: tuple[str, ...]) -> str:
    if name.startswith(head):
        return "head"
    if ".adapter." in name:
        return "adapters"
    if name.endswith((".low", ".high")):
        return "low rank"
    return "norms" if name in norms else "blocks"


_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def _replace_classifier(model: EfficientViTSeg, classes: int) -> None:
    old = model.head.classifier
    new = nn.Conv2d(old.in_channels, classes, 1)
    nn.init.normal_(new.weight, std=0.01)
    nn.init.zeros_(new.bias)  # type: ignore[arg-type]
    model.head.output_ops[0].op_list[-1].conv = new  # type: ignore[index,union-attr]
    model.classes = classes


def _head_prefixes(model: EfficientViTSeg, how: Adaptation) -> list[str]:
    if how.head == "full" or how.method.startswith("top-"):
        return ["head."]
    last = next(name for name, module in model.named_modules() if module is model.head.classifier)
    return [f"{last}."]


def _top_blocks(model: EfficientViTSeg, how: Adaptation) -> list[str]:
    """Prefixes of the backbone's last k blocks."""
    if not how.method.startswith("top-"):
        return []
    names = [
        f"backbone.stages.{stage}.op_list.{block}."
        for stage, blocks in enumerate(model.backbone.stages)
        for block in range(len(blocks.op_list))
    ]
    return names[-int(how.method.removeprefix("top-")) :]


def _scales_and_shifts(model: EfficientViTSeg) -> set[str]:
    """Parameters of normalisations, and biases of convolutions that have none behind them (`fewer_norm`)."""
    norms = {
        f"{prefix}.{name}"
        for prefix, module in model.named_modules()
        if isinstance(module, nn.BatchNorm2d)
        for name, _ in module.named_parameters()
    }
    biases = {name for name, _ in model.named_parameters() if name.endswith(".conv.bias")}
    return norms | biases


def _is_added(name: str) -> bool:
    return ".adapter." in name or name.endswith((".low", ".high"))
