"""Domain packs: what the directly exported domain computes, beside a base whose files never change."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnxruntime import InferenceSession

from deploy.bundle import Bundle, load_bundle
from deploy.errors import run_cli
from deploy.files import sha256_file
from deploy.runtimes import open_session
from export.__main__ import main
from export.targets import onnxruntime
from pipeline.models.adaptation import Adaptation, adapt
from pipeline.models.checkpoints import CheckpointMeta, load_checkpoint, save_checkpoint
from pipeline.models.efficientvit import create_model
from pipeline.models.labelmap import LabelMapper

METHODS = ("adapter", "adapter-all", "lora")
BUILD = ("build", "--target", "onnxruntime", "--checkpoint", "street")


def make_domain(home: Path, built, name: str, how: Adaptation, size: tuple[int, int]) -> str:
    """runs/street+NAME: the built run with a method's tensors moved, classes of its own."""
    torch.manual_seed(1)
    model, meta = load_checkpoint(built.checkpoint)
    adapt(model, 3, how)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.05)
    spec = {**meta.model, "classes": 3, "adaptation": vars(how)}
    dataset = {"name": "ct", "classes": ["air", "lung", "lesion"], "licence": "drawn here"}
    base = {"name": "street", "sha256": sha256_file(built.checkpoint)}
    described = CheckpointMeta(spec, dataset, {"size": list(size)}, base=base)
    save_checkpoint(
        home / "runs" / f"street+{name}" / "train" / "best.safetensors", model.state_dict(), described
    )
    return f"{name}=street+{name}"


def export(home: Path, *words: str) -> int:
    """`python -m export ...` in the run's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setattr(sys, "argv", ["export", *words])
        return run_cli(main)


@pytest.fixture(scope="module")
def domains(built) -> dict[str, str]:
    """NAME=RUN of a domain by each method; the last has a size of its own."""
    sizes = {"adapter": (75, 93), "adapter-all": (75, 93), "lora": (64, 64)}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(built.home)
        return {m: make_domain(built.home, built, m, Adaptation(m, 4), sizes[m]) for m in METHODS}


@pytest.fixture(scope="module")
def packed(built, domains) -> Bundle:
    """The bundle of the base and all domains."""
    options = [word for domain in domains.values() for word in ("--domain", domain)]
    assert export(built.home, *BUILD, *options, "--out", "bundles/packed") == 0
    return load_bundle(built.home / "bundles" / "packed")


def outputs(bundle: Bundle, frames: np.ndarray) -> np.ndarray:
    session = open_session(bundle, 1)
    try:
        return np.concatenate([session.run(frame[None]) for frame in frames])
    finally:
        session.close()


def logits(bundle: Bundle, folder: Path, frames: np.ndarray) -> np.ndarray:
    """What the bundle's own graph computes before its labels."""
    rule = bundle.manifest.preprocess
    model = create_model("b0", len(bundle.manifest.classes))
    net = LabelMapper(model, rule.size, rule.mean, rule.std)  # its shapes are what is asked for
    (graph,) = onnxruntime.expose_logits({"g.onnx": bundle.model_file(".onnx")}, net, folder).values()
    session = InferenceSession(str(graph))
    return np.concatenate([session.run(["logits"], {"image": frame[None]})[0] for frame in frames])


@pytest.mark.parametrize("method", METHODS)
def test_masks_and_logits_are_those_of_the_direct_export(built, packed, tmp_path, method: str) -> None:
    alone = ("--checkpoint", f"street+{method}", "--out", f"bundles/{method}")
    assert export(built.home, *BUILD[:3], *alone) == 0
    direct, pack = load_bundle(built.home / "bundles" / method), load_bundle(packed.root, domain=method)
    height, width = pack.manifest.preprocess.size
    frames = np.random.default_rng(0).integers(0, 256, (3, height, width, 3), np.uint8)
    expected = logits(direct, tmp_path, frames)
    assert np.abs(logits(pack, tmp_path, frames) - expected).max() <= 1e-5 * max(1, expected.std())
    assert np.mean(outputs(direct, frames) == outputs(pack, frames)) >= 0.9999
    assert pack.manifest.classes == direct.manifest.classes
    assert pack.manifest.provenance.model["method"] == method
    assert pack.manifest.parity.agreement >= 0.999 and len(pack.golden()[0]) == 1


def test_the_base_does_not_depend_on_its_domains(built, scenes, packed: Bundle, domains) -> None:
    more = ("--data", str(scenes.root), "--eval", "3", "--out", "bundles/one")
    assert export(built.home, *BUILD, "--domain", domains["lora"], *more) == 0
    one = load_bundle(built.home / "bundles" / "one")
    for name in ("base.onnx", "base.bin"):
        assert sha256_file(one.path(name)) == sha256_file(packed.path(name))
    frames = np.random.default_rng(0).integers(0, 256, (2, 75, 93, 3), np.uint8)
    assert (outputs(packed, frames) == outputs(built.bundle, frames)).mean() >= 0.9999
    pack = load_bundle(one.root, domain="lora").manifest
    assert one.manifest.eval and pack.eval is None, "the labelled subset is the base's"
    assert {entry.path for entry in pack.files} == {"base.bin", "lora.bin", "lora.onnx", "lora.golden.npz"}


def test_a_graph_holds_nothing_that_the_base_has(packed: Bundle) -> None:
    sizes = {entry.path: entry.bytes for entry in packed.manifest.files}
    assert sizes["adapter.bin"] < sizes["base.bin"] / 10
    graph = onnx.load(packed.path("lora.onnx"), load_external_data=False).graph
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("BatchNormalization") == 32, (
        "not folded into weights, which would then be the domain's"
    )
    where = {t.name: t.external_data[0].value for t in graph.initializer if t.external_data}
    low = [name for name in where if name.endswith((".low", ".high"))]
    assert low and all(where[name] == "lora.bin" for name in low)
    convolutions = [name for name in where if name.endswith("conv.weight")]
    assert all(where[name] == "base.bin" for name in convolutions if "output_ops.0.op_list.1" not in name)


def test_an_unchanged_build_is_cached(built, packed, domains, capsys) -> None:
    words = [word for domain in domains.values() for word in ("--domain", domain)]
    assert export(built.home, *BUILD, *words, "--out", "bundles/packed") == 0
    assert "cached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--target", "ncnn"), "build each domain by itself: --checkpoint street+lora"),
        (("--precision", "int8", "--data", "DATA"), "onnxruntime in fp32"),
        (("--domain", "lora=street+adapter"), "each domain once"),
        (("--domain-data", "ct=nowhere"), "data for those"),
        (("--domain", "base=street+adapter"), "letters, digits"),
        (("--domain", "x=street"), "a whole model"),
        (("--domain", "lora"), "not NAME=VALUE"),
    ],
)
def test_wrong_use_is_one_line(built, domains, scenes, capsys, words, says) -> None:
    words = [str(scenes.root) if word == "DATA" else word for word in words]
    assert export(built.home, *BUILD, "--domain", domains["lora"], *words, "--out", "bundles/no") == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert not (built.home / "bundles" / "no").exists()


def test_a_domain_of_another_base_is_refused(built, domains, capsys) -> None:
    other = built.home / "runs" / "other" / "train" / "best.safetensors"
    model, meta = load_checkpoint(built.checkpoint)
    state = {
        name: value + 1 if name.endswith("conv.bias") else value for name, value in model.state_dict().items()
    }
    save_checkpoint(other, state, meta)
    command = ("build", "--target", "onnxruntime", "--checkpoint", "other", "--domain", domains["lora"])
    assert export(built.home, *command, "--out", "bundles/no") == 2
    assert "a domain of street" in capsys.readouterr().err
