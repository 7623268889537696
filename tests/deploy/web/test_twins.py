"""The page's arithmetic against Python's, by Node: the same modules that the browser loads."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from deploy.manifest import Preprocess, TensorSpec
from deploy.metrics import ConfusionMatrix
from deploy.noise import spread_of, uneven
from deploy.postprocess import logits_to_labels, to_frame_size
from deploy.preprocess import prepare_input, window_hu
from deploy.schema import encode

RULE = Preprocess((24, 32), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), in_graph=True)
FRAMES = [(24, 32), (37, 53), (480, 640), (48, 64), (720, 1280), (1, 7), (33, 90), (72, 96)]
MIXED = "const { prepareInput } = await load('preprocess.js');"


def _write(path: Path, array: np.ndarray) -> str:
    path.write_bytes(np.ascontiguousarray(array).tobytes())
    return str(path)


@pytest.mark.parametrize("resize", ["stretch", "letterbox"])
@pytest.mark.parametrize("interpolation", ["linear", "area"])
@pytest.mark.parametrize("layout", ["uint8", "NCHW", "NHWC"])
def test_preprocessing_gives_the_same_bytes(run_js, tmp_path, resize, interpolation, layout) -> None:
    in_graph = layout == "uint8"
    rule = replace(RULE, resize=resize, interpolation=interpolation, in_graph=in_graph)
    shape = (1, 3, 24, 32) if layout == "NCHW" else (1, 24, 32, 3)
    dtype = "uint8" if in_graph else "float32"
    spec = TensorSpec("image", dtype, shape, "NCHW" if layout == "NCHW" else "NHWC")
    rng = np.random.default_rng(0)
    cases, expected = [], []
    for index, (height, width) in enumerate(FRAMES):
        image = rng.integers(0, 256, (height, width, 3), np.uint8)
        expected.append(prepare_input(image, rule, spec))
        rgba = np.concatenate([image, np.full((height, width, 1), 255, np.uint8)], 2)
        cases.append({"file": _write(tmp_path / f"{index}.rgba", rgba), "height": height, "width": width})
    code = (
        MIXED
        + """
    given.cases.forEach(({ file, width, height }) => {
      const { data } = prepareInput({ width, height, data: bytes(file) }, given.rule, given.spec);
      writeFileSync(file + ".out", new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    });
    tell(true);"""
    )
    run_js(code, {"cases": cases, "rule": encode(rule), "spec": encode(spec)})
    for case, want in zip(cases, expected, strict=True):
        got = np.fromfile(case["file"] + ".out", dtype).reshape(want.shape)
        assert np.array_equal(got, want), case


def test_an_input_that_no_browser_makes_is_refused(run_js) -> None:
    spec = TensorSpec("image", "float16", (1, 3, 24, 32), "NCHW")
    code = (
        MIXED
        + """
    const image = { width: 32, height: 24, data: new Uint8Array(32 * 24 * 4) };
    try { prepareInput(image, given.rule, given.spec); tell(""); } catch (error) { tell(error.message); }"""
    )
    assert "float16" in run_js(code, {"rule": encode(replace(RULE, in_graph=False)), "spec": encode(spec)})


def test_windowing_gives_the_same_bytes(run_js, tmp_path) -> None:
    hu = np.arange(-2000, 3000, dtype=np.int16)
    for window in ((-160.0, 240.0), (-200.0, 300.0), (-1000.5, 400.25)):
        code = """
        const { windowHu } = await load("preprocess.js");
        const hu = new Int16Array(bytes(given.file).buffer);
        tell([...windowHu({ hu, channels: 1 }, given.window)].filter((_, i) => i % 4 === 1));"""
        got = run_js(code, {"file": _write(tmp_path / "hu", hu), "window": window})
        assert np.array_equal(got, window_hu(hu, window))


@pytest.mark.parametrize("resize", ["stretch", "letterbox"])
def test_label_maps_return_to_the_frame(run_js, tmp_path, resize: str) -> None:
    labels = np.random.default_rng(1).integers(0, 9, (24, 32), np.uint8)
    rule = replace(RULE, resize=resize)
    for frame in FRAMES:
        code = """
        const { toFrameSize } = await load("postprocess.js");
        tell([...toFrameSize(bytes(given.file), given.rule, given.frame)]);"""
        given = {"file": _write(tmp_path / "labels", labels), "rule": encode(rule), "frame": frame}
        assert np.array_equal(np.reshape(run_js(code, given), frame), to_frame_size(labels, rule, frame))


@pytest.mark.parametrize("upsample", ["bilinear", "bicubic"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_logits_become_the_same_labels(run_js, tmp_path, upsample: str, layout: str) -> None:
    logits = np.random.default_rng(2).standard_normal((1, 5, 6, 8)).astype(np.float32)
    stored = logits if layout == "NCHW" else logits.transpose(0, 2, 3, 1)
    spec = TensorSpec("logits", "float32", stored.shape, layout)
    code = """
    const { outputToLabels } = await load("postprocess.js");
    const data = new Float32Array(bytes(given.file).buffer);
    tell([...outputToLabels({ data }, given.spec, [48, 64], given.upsample)]);"""
    given = {"file": _write(tmp_path / "logits", stored), "spec": encode(spec), "upsample": upsample}
    got = np.reshape(run_js(code, given), (48, 64))
    agreement = np.mean(got == logits_to_labels(logits, (48, 64), upsample))
    assert agreement >= 0.999  # sums of floats in another order


def test_png_files_as_stored(run_js, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    arrays = {
        "grey8": rng.integers(0, 256, (9, 13), np.uint8),
        "grey16": rng.integers(0, 65536, (9, 13), np.uint16),
        "rgb16": rng.integers(0, 65536, (9, 13, 3), np.uint16),
        "rgb8": np.kron(rng.integers(0, 256, (3, 4, 3), np.uint8), np.ones((5, 5, 1), np.uint8)),
    }
    for name, array in arrays.items():
        path = tmp_path / f"{name}.png"
        cv2.imwrite(str(path), array if array.ndim == 2 else array[:, :, ::-1])
        code = """
        const { decodePng } = await load("png.js");
        const { width, height, channels, depth, data } = await decodePng(bytes(given));
        tell({ shape: [height, width, channels], depth, data: [...data] });"""
        told = run_js(code, str(path))
        assert np.array_equal(np.reshape(told["data"], told["shape"]).squeeze(), array), name
        assert told["depth"] == array.dtype.itemsize * 8


def test_damaged_and_huge_png_files_are_refused(run_js, tmp_path: Path) -> None:
    whole = cv2.imencode(".png", np.zeros((40, 40), np.uint16))[1].tobytes()
    header = whole[:16] + (1 << 30).to_bytes(4, "big") * 2 + whole[24:]
    cases = {
        "not a PNG": (b"", b"GIF89a" + bytes(40)),
        "damaged: it cannot be decompressed": (whole[:60],),
        f"a PNG of {1 << 30} x {1 << 30} pixels: at most {1 << 26} can be read": (header,),
        "a damaged PNG": (whole[:16] + bytes(4) + whole[20:],),
    }
    for said, data in ((said, data) for said, files in cases.items() for data in files):
        (tmp_path / "x.png").write_bytes(data)
        code = """
        const { decodePng } = await load("png.js");
        await decodePng(bytes(given)).then(() => tell(""), (error) => tell(error.message));"""
        assert run_js(code, str(tmp_path / "x.png")) == said


def test_the_golden_is_read(run_js, tiny_bundle) -> None:
    inputs, outputs = tiny_bundle.golden()
    code = """
    const { readNpz } = await load("npz.js");
    const { inputs, outputs } = await readNpz(bytes(given));
    tell({ shape: inputs.shape, inputs: [...inputs.data], outputs: [...outputs.data] });"""
    told = run_js(code, str(tiny_bundle.root / "golden.npz"))
    assert told["shape"] == list(inputs.shape)
    assert np.array_equal(told["inputs"], inputs.ravel()) and np.array_equal(told["outputs"], outputs.ravel())


def test_metrics_are_the_same(run_js) -> None:
    rng = np.random.default_rng(4)
    truth, prediction = rng.integers(0, 4, 500, np.uint8), rng.integers(0, 3, 500, np.uint8)
    truth[:50] = 255
    truth[truth == 3] = 0
    matrix = ConfusionMatrix(5, 255)
    matrix.update(prediction, truth)
    times = rng.uniform(5, 9, 103).tolist()
    code = """
    const { ConfusionMatrix, percentile, jitter, judge } = await load("metrics.js");
    const matrix = new ConfusionMatrix(5, 255);
    matrix.update(given.prediction, given.truth);
    tell({ iou: matrix.iou(), miou: matrix.miou(), accuracy: matrix.pixelAccuracy(),
           jitter: jitter(given.times), p: [50, 90, 99].map((p) => percentile(given.times, p)),
           noise: judge(given.times, 0) });"""
    told = run_js(code, {"prediction": prediction.tolist(), "truth": truth.tolist(), "times": times})
    assert told["miou"] == pytest.approx(matrix.miou(), abs=1e-12)
    assert [v is None for v in told["iou"]] == [math.isnan(v) for v in matrix.iou()]
    assert told["accuracy"] == pytest.approx(matrix.pixel_accuracy(), abs=1e-12)
    assert told["p"] == pytest.approx(np.percentile(times, [50, 90, 99]).tolist())
    assert told["jitter"] == pytest.approx(np.abs(np.diff(times)).mean())
    assert told["noise"]["spread"] == pytest.approx(spread_of(times))
    assert told["noise"]["noisy"] == (spread_of(times) > 0.05 or uneven(times))
