"""A training recipe: frozen dataclasses read from one TOML file, with `--set section.key=value` on top.

The dataclasses are the reference of every setting: default, unit, range. An unknown key is an error that
lists the known ones. Refuses to know where the work runs (device, threads) and what the model is later
exported to: those are arguments, never part of a recipe.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from deploy.errors import InputError
from deploy.manifest import MAX_SIDE
from deploy.options import parse_size

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Size = tuple[int, int]  # (height, width), written "HxW"
Range = tuple[float, float]  # (low, high)
_TOML_LIMIT = 1 << 20


def _setting(
    default: Any,
    low: float | None = None,
    high: float | None = None,
    of: Sequence[str] = (),
    how: bool = False,
    later: bool = False,
) -> Any:
    """A field with its allowed values. `how`: it changes how the work is done, never the result.

    `later`: it was added after the first trainings, and its default is what they did: while it has that
    value it is no part of what determines a result, so that they stay what they are.
    """
    limits = {"low": low, "high": high, "of": tuple(of), "how": how, "later": later}
    return field(default=default, metadata=limits)


@dataclass(frozen=True)
class ModelConfig:
    """The network. `init`: a checkpoint whose tensors of equal name and shape are the starting point."""

    variant: str = _setting("b0", of=("b0", "b1", "b2", "b3", "l1", "l2"))
    attention: str = _setting("linear", of=("linear", "softmax"))
    head: str = _setting("cityscapes", of=("cityscapes", "ade20k"))
    activation: str = _setting("published", of=("published", "relu"), later=True)  # relu: for int8
    init: str = _setting("")


@dataclass(frozen=True)
class DataConfig:
    """The labelled folder, and the size at which the model sees a whole image (validation and export)."""

    dir: str = _setting("", how=True)  # what counts is the digest of its files
    train_split: str = _setting("train")
    val_split: str = _setting("val")
    size: tuple[int, int] = _setting((192, 256), low=32, high=8192)
    resize: str = _setting("stretch", of=("stretch", "letterbox"))
    interpolation: str = _setting("linear", of=("linear", "area"))
    hu_window: tuple[float, float] = _setting((), low=-32768, high=32768, later=True)  # CT: shown from, to
    cache_gb: float = _setting(2.0, low=0, how=True)  # decoded images kept in memory, a process; 0: none


@dataclass(frozen=True)
class AugmentConfig:
    """What is drawn anew for every sample. 0 switches a step off; `*_p` are probabilities."""

    crop: tuple[int, int] = _setting((192, 256), low=32, high=8192)
    scale: tuple[float, float] = _setting(
        (0.5, 2.0), low=0.05, high=20
    )  # 1 = an image at `data.size`; log-uniform
    aspect: float = _setting(0.0, low=0, high=1)  # width to height changes by up to this share
    flip_p: float = _setting(0.5, low=0, high=1)  # left to right
    brightness: float = _setting(0.2, low=0, high=1)  # up to +- this share of the full range
    contrast: float = _setting(0.2, low=0, high=1)
    gamma: float = _setting(0.2, low=0, high=0.9)  # exponent 1 +- this
    saturation: float = _setting(0.2, low=0, high=1)
    hue: float = _setting(0.02, low=0, high=0.5)  # share of the colour circle
    white_balance: float = _setting(0.1, low=0, high=0.9)  # each channel's gain 1 +- this
    grey_p: float = _setting(0.0, low=0, high=1)  # colour is dropped
    blur_p: float = _setting(0.1, low=0, high=1)  # Gaussian, 3 to 7 pixels
    noise_p: float = _setting(0.1, low=0, high=1)  # Gaussian, deviation 1 to 5 % of the range
    shadow_p: float = _setting(0.0, low=0, high=1)  # a dark polygon


@dataclass(frozen=True)
class LossConfig:
    """Cross-entropy. `ohem`: only pixels whose true class is less probable than this count; 0: all do."""

    balance: str = _setting("none", of=("none", "sqrt_median_frequency", "median_frequency"))
    ohem: float = _setting(0.0, low=0, high=1)
    ohem_keep: float = _setting(0.0625, low=0, high=1)  # but at least this share of the pixels, the hardest
    label_smoothing: float = _setting(0.0, low=0, high=0.5)


@dataclass(frozen=True)
class TrainConfig:
    """Optimisation (AdamW). Numbers of steps count optimizer steps."""

    steps: int = _setting(1000, low=1, high=1e8)  # in all, the finish included
    batch: int = _setting(16, low=1, high=65536)
    lr: float = _setting(3e-3, low=0, high=10)
    weight_decay: float = _setting(0.01, low=0, high=10)  # not on normalisation weights and biases
    warmup: int = _setting(50, low=0)  # steps from 0 to lr
    schedule: str = _setting("cosine", of=("cosine", "poly"))
    poly_power: float = _setting(0.9, low=0, high=10)
    lr_end: float = _setting(0.0, low=0, high=1)  # share of lr that is left at the end
    ema: float = _setting(0.99, low=0, high=0.999999)  # decay of the averaged weights; 0: no average
    clip: float = _setting(5.0, low=0)  # largest gradient norm; 0: no clipping
    seed: int = _setting(0, low=0, high=2**31)
    eval_every: int = _setting(0, low=0)  # steps between validations; 0: only at the end
    patience: int = _setting(
        0, low=0, later=True
    )  # validations without a better one before it stops; 0: never
    autocast: str = _setting("auto", of=("auto", "off", "bf16"))  # auto: bf16 on CUDA, off on CPU
    workers: int = _setting(-1, low=-1, high=256, how=True)  # loader processes; 0: none; -1: `device` decides
    log_every: int = _setting(10, low=1, how=True)
    checkpoint_seconds: float = _setting(60.0, low=0, how=True)  # 0: after every step


@dataclass(frozen=True)
class FinishConfig:
    """The last steps on larger crops, usually whole images. `share` of `train.steps`; 0: no finish."""

    share: float = _setting(0.0, low=0, high=1)
    size: tuple[int, int] = _setting((360, 480), low=32, high=8192)
    batch: int = _setting(4, low=1, high=65536)
    scale: tuple[float, float] = _setting((0.8, 1.25), low=0.05, high=20)


@dataclass(frozen=True)
class AdaptConfig:
    """How a base checkpoint becomes a domain's (`pipeline adapt` fills this in); no base: a whole model.

    All but the base are the attributes of `pipeline.models.adaptation.Adaptation`.
    """

    base: str = _setting("", later=True)  # a run's or zoo name; [model] then is the base's
    method: str = _setting("adapter", later=True)
    bottleneck: int = _setting(8, low=1, high=1024, later=True)
    head: str = _setting("classifier", of=("classifier", "full"), later=True)
    bn_stats: str = _setting("frozen", of=("frozen", "domain"), later=True)


@dataclass(frozen=True)
class QuantConfig:
    """Training for int8 (pipeline/fakequant.py), from a trained checkpoint: `model.init`."""

    qat: bool = _setting(False, later=True)  # every convolution that int8 may take rounds as it will there


@dataclass(frozen=True)
class Recipe:
    """One training, completely described."""

    name: str = ""
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    finish: FinishConfig = field(default_factory=FinishConfig)
    adapt: AdaptConfig = field(default_factory=AdaptConfig)
    quant: QuantConfig = field(default_factory=QuantConfig)

    @property
    def finish_steps(self) -> int:
        """How many of the last steps belong to the finish."""
        return round(self.train.steps * self.finish.share)


def load_recipe(path: Path | str, sets: Sequence[str] = ()) -> Recipe:
    """Read a recipe file and apply `sets`, texts such as "train.lr=3e-4"; the name defaults to the file's.

    Raises:
        InputError: no such file, not TOML, an unknown section or key, a value of the wrong type or out of
        range.
    """
    path = Path(path)
    table = _read_toml(path)
    for text in sets:
        _apply_set(table, text)
    return build_recipe({"name": path.stem} | table, f"recipe {path}")


def build_recipe(table: dict[str, Any], where: str) -> Recipe:
    """A recipe from a table as TOML gives it; `where` it is from, for errors.

    Raises:
        InputError: as `load_recipe`.
    """
    recipe: Recipe = _build(Recipe, table, "", where)
    _check_together(recipe)
    return recipe


def settings(recipe: Recipe, with_how: bool = False) -> dict[str, Any]:
    """The recipe as nested plain values; without those that cannot change the result (and the name)."""
    table: dict[str, Any] = {"name": recipe.name} if with_how else {}
    for section in dataclasses.fields(recipe):
        part = getattr(recipe, section.name)
        if dataclasses.is_dataclass(part):
            values = {
                f.name: _plain(getattr(part, f.name))
                for f in dataclasses.fields(part)
                if with_how or _counts(f, getattr(part, f.name))
            }
            table |= {section.name: values} if values else {}
    return table


def _counts(setting: dataclasses.Field[Any], value: Any) -> bool:
    """Whether a setting of this value is part of what determines a result."""
    return not setting.metadata["how"] and not (setting.metadata["later"] and value == setting.default)


def recorded_table(recorded: dict[str, Any]) -> dict[str, Any]:
    """What `settings` gave, as a recipe's table again: sizes are texts there."""
    return {
        section: {key: _written(value) for key, value in values.items()}
        for section, values in recorded.items()
    }


def _written(value: Any) -> Any:
    is_size = isinstance(value, list) and all(type(side) is int for side in value)
    return "x".join(map(str, value)) if is_size else value


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as stream:
            data = stream.read(_TOML_LIMIT + 1)
    except OSError as error:
        known = ", ".join(str(p) for p in sorted(Path("recipes").glob("*.toml"))) or None
        raise InputError(f"cannot read recipe {path}", got=error.strerror, expected=known) from error
    if len(data) > _TOML_LIMIT:
        raise InputError(f"recipe {path} is too large", expected=f"at most {_TOML_LIMIT} bytes")
    try:
        table: dict[str, Any] = tomllib.loads(data.decode("utf-8-sig"))
        return table
    except (ValueError, RecursionError) as error:
        raise InputError(f"recipe {path} is not valid TOML", got=error) from error


def _apply_set(table: dict[str, Any], text: str) -> None:
    """Put one "section.key=value" into the table; the value is TOML, or else a text."""
    key, equals, value = text.partition("=")
    section, dot, name = key.strip().partition(".")
    if not equals or (not dot and section != "name"):
        raise InputError(f"--set {text}", expected="section.key=value, e.g. train.lr=3e-4")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        parsed = value.strip()
    if not dot:
        table[section] = parsed
        return
    part = table.setdefault(section, {})
    if isinstance(part, dict):
        part[name] = parsed


def _build(cls: Any, table: Any, prefix: str, where: str) -> Any:
    """A dataclass from a table, checked key by key."""
    if not isinstance(table, dict):
        raise InputError(f"{where}: {prefix.rstrip('.')}", got=repr(table), expected="a table of settings")
    fields = {f.name: f for f in dataclasses.fields(cls)}
    unknown = sorted(set(table) - set(fields))
    if unknown:
        raise InputError(
            f"{where}: unknown key", got=f"{prefix}{unknown[0]}", expected=_one_of(prefix, fields)
        )
    hints = get_type_hints(cls)
    values = {}
    for key, value in table.items():
        if dataclasses.is_dataclass(hints[key]):
            values[key] = _build(hints[key], value, f"{key}.", where)
        else:
            values[key] = _value(value, hints[key], dict(fields[key].metadata), f"{where}: {prefix}{key}")
    return cls(**values)


def _one_of(prefix: str, names: Any) -> str:
    return "one of " + ", ".join(f"{prefix}{name}" for name in names)


def _value(value: Any, kind: Any, limits: dict[str, Any], where: str) -> Any:
    """One value as its type and within its limits."""
    typed = _typed(value, kind, where)
    if limits.get("of") and typed not in limits["of"]:
        raise InputError(where, got=repr(typed), expected=f"one of {', '.join(limits['of'])}")
    low, high = limits.get("low"), limits.get("high")
    for number in typed if isinstance(typed, tuple) else (typed,):
        if isinstance(number, (int, float)) and not _within(number, low, high):
            raise InputError(where, got=value, expected=_limits_text(low, high))
    return typed


def _within(number: float, low: float | None, high: float | None) -> bool:
    finite = number - number == 0
    return finite and (low is None or number >= low) and (high is None or number <= high)


def _limits_text(low: float | None, high: float | None) -> str:
    if high is None:
        return "a finite number" if low is None else f"at least {low:g}"
    return f"{low:g} to {high:g}"


def _typed(value: Any, kind: Any, where: str) -> Any:
    if kind is str and isinstance(value, str):
        return value
    if kind in (int, bool) and type(value) is kind:
        return value
    if kind is float and type(value) in (int, float):
        return float(value)
    if get_origin(kind) is tuple and get_args(kind)[0] is int and isinstance(value, str):
        return _size(value, where)
    if get_origin(kind) is tuple and get_args(kind)[0] is float:
        return _range(value, where)
    names = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
    raise InputError(
        where, got=repr(value), expected=names.get(kind, 'a size such as "192x256" (height x width)')
    )


def _size(value: str, where: str) -> Size:
    try:
        return parse_size(value)
    except InputError as error:
        expected = f'a size such as "192x256" (height x width), each side at most {MAX_SIDE}'
        raise InputError(where, got=repr(value), expected=expected) from error


def _range(value: Any, where: str) -> Range:
    good = isinstance(value, list) and len(value) == 2 and all(type(v) in (int, float) for v in value)
    if not good or value[0] > value[1]:
        raise InputError(where, got=repr(value), expected="[low, high], e.g. [0.5, 2.0]")
    return (float(value[0]), float(value[1]))


def _check_together(recipe: Recipe) -> None:
    """Conditions on more than one setting."""
    if not recipe.name or any(c not in _NAME for c in recipe.name) or recipe.name.startswith((".", "-")):
        raise InputError(
            "recipe name", got=repr(recipe.name), expected="letters, digits, . _ - + (it names the run)"
        )
    if recipe.data.train_split == recipe.data.val_split:
        raise InputError(
            "data.val_split", got=recipe.data.val_split, expected="another split than the one trained on"
        )
    if recipe.quant.qat and (recipe.adapt.base or not recipe.model.init):
        got = "a domain" if recipe.adapt.base else "no model.init"
        fix = "--set model.init=RUN, a trained whole model"
        raise InputError("quant.qat", got=got, expected="a checkpoint to go on from", fix=fix)
    if recipe.train.warmup >= recipe.train.steps:
        fix = "lower train.warmup or raise train.steps"
        raise InputError(
            "train.warmup",
            got=recipe.train.warmup,
            expected=f"less than train.steps={recipe.train.steps}",
            fix=fix,
        )


_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+")
