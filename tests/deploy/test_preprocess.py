"""Reading images of every kind, resizing and normalising, against slow references."""

from __future__ import annotations

import io
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from deploy import imagefile
from deploy.bundle import Preprocess, TensorSpec
from deploy.errors import InputError
from deploy.options import parse_size
from deploy.preprocess import letterbox_window, prepare_input, read_image, resize_image

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture
def picture() -> np.ndarray:
    """`[40, 60, 3]` uint8 RGB, different in every corner."""
    return np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)


def _save(path: Path, image: Image.Image, **options: object) -> Path:
    image.save(path, **options)
    return path


def test_parse_size() -> None:
    assert parse_size("360x480") == (360, 480) and parse_size("1024X2048") == (1024, 2048)
    for text in ("360", "360x", "-3x4", "0x4", "360x480x3", "36.0x48", "20000x10", "", "٣x٤"):
        with pytest.raises(InputError, match="HEIGHTxWIDTH"):
            parse_size(text)


def test_plain_png_is_rgb_on_any_path(tmp_path: Path, picture: np.ndarray) -> None:
    path = tmp_path / "mit Leerzeichen – 図.png"
    assert np.array_equal(read_image(_save(path, Image.fromarray(picture))), picture)


def test_surrogate_path(tmp_path: Path, picture: np.ndarray) -> None:
    path = tmp_path / "caf\udce9.png"  # a Latin-1 name on a UTF-8 system
    try:
        path.write_bytes(_bytes(picture, "PNG"))
    except (OSError, UnicodeEncodeError):
        pytest.skip("this file system refuses such names")
    assert np.array_equal(read_image(path), picture)


def _bytes(pixels: np.ndarray, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path: Path, kind: str, orientation: int) -> None:
    blocks = np.zeros((32, 48, 3), np.uint8)
    blocks[:16, :24], blocks[:16, 24:], blocks[16:, :24] = (250, 0, 0), (0, 250, 0), (0, 0, 250)
    exif = Image.Exif()
    exif[0x112] = orientation
    path = tmp_path / f"x.{kind.lower()}"
    path.write_bytes(_bytes(blocks, kind, exif=exif, **({} if kind in ("PNG", "TIFF") else {"quality": 100})))
    expected = np.array(ImageOps.exif_transpose(Image.open(path)).convert("RGB"))
    assert expected.shape == ((32, 48, 3) if orientation < 5 else (48, 32, 3))
    got = read_image(path)
    assert got.shape == expected.shape
    assert np.abs(got.astype(int) - expected).mean() < 3


def test_sixteen_bits_are_scaled_and_rounded(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 65536, (40, 60, 3), np.uint16)
    values[0, 0], values[0, 1] = 0, 65535
    cv2.imwrite(str(tmp_path / "deep.png"), values[:, :, ::-1])
    expected = np.rint(values.astype(np.float64) * 255 / 65535)
    assert np.abs(read_image(tmp_path / "deep.png") - expected).max() <= 0.5 + 1e-9
    assert (read_image(tmp_path / "deep.png") == expected).mean() > 0.999
    cv2.imwrite(str(tmp_path / "grey.png"), values[:, :, 0])
    grey = read_image(tmp_path / "grey.png")
    assert np.array_equal(grey[:, :, 0], read_image(tmp_path / "deep.png")[:, :, 0])
    assert np.array_equal(grey[:, :, 0], grey[:, :, 2])


@pytest.mark.parametrize("mode", ["L", "1", "P", "LA", "RGBA", "CMYK"])
def test_grey_palette_alpha_and_cmyk(tmp_path: Path, mode: str, picture: np.ndarray) -> None:
    source = Image.fromarray(picture).convert(mode)
    suffix = "jpg" if mode == "CMYK" else "png"
    got = read_image(_save(tmp_path / f"x.{suffix}", source))
    assert got.shape == (40, 60, 3) and got.dtype == np.uint8
    if mode != "CMYK":
        assert np.array_equal(got, np.array(source.convert("RGB")))


def test_alpha_is_dropped_not_blended(tmp_path: Path, picture: np.ndarray) -> None:
    alpha = np.dstack([picture, np.zeros((40, 60), np.uint8)])
    assert np.array_equal(read_image(_save(tmp_path / "x.png", Image.fromarray(alpha))), picture)


def test_transparent_palette(tmp_path: Path, picture: np.ndarray) -> None:
    source = Image.fromarray(picture).quantize(16)
    got = read_image(_save(tmp_path / "x.png", source, transparency=0))
    assert np.array_equal(got, np.array(source.convert("RGB")))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.9, 0.999])
def test_truncated_files_are_refused_by_name(
    tmp_path: Path, picture: np.ndarray, kind: str, share: float, capfd: pytest.CaptureFixture[str]
) -> None:
    data = _bytes(np.tile(picture, (4, 4, 1)), kind)
    path = tmp_path / "cut.img"
    path.write_bytes(data[: min(len(data) - 2, int(len(data) * share))])
    with pytest.raises(InputError, match=r"cut\.img"):
        read_image(path)
    if tuple(map(int, cv2.__version__.split(".")[:2])) >= (4, 10):  # older ones cannot be silenced
        assert capfd.readouterr().err == ""


def test_jpeg_cut_at_every_place_never_passes(tmp_path: Path, picture: np.ndarray) -> None:
    data = _bytes(picture, "JPEG", progressive=True)
    path = tmp_path / "cut.jpg"
    for length in range(0, len(data) - 1, 37):
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match=r"cut\.jpg"):
            read_image(path)
    path.write_bytes(data + b"trailing bytes of a phone")
    assert read_image(path).shape == (40, 60, 3)


@pytest.mark.parametrize("place", [20, -20], ids=["header", "pixels"])
def test_a_changed_byte_of_a_png_is_found(
    tmp_path: Path, picture: np.ndarray, place: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the checksums, and in one line: libpng would write others to stderr."""
    data = bytearray(cv2.imencode(".png", picture)[1].tobytes())
    data[place] ^= 0x11
    (tmp_path / "flip.png").write_bytes(data)
    with pytest.raises(InputError, match=r"flip\.png is truncated or damaged"):
        read_image(tmp_path / "flip.png")
    assert capfd.readouterr().err == ""


def test_jpeg_thumbnail_does_not_hide_a_truncation(tmp_path: Path, picture: np.ndarray) -> None:
    inner = _bytes(picture[:8, :8], "JPEG")  # holds an end marker of its own
    data = _bytes(picture, "JPEG", comment=inner)
    (tmp_path / "whole.jpg").write_bytes(data)
    assert read_image(tmp_path / "whole.jpg").shape == (40, 60, 3)
    (tmp_path / "cut.jpg").write_bytes(data[: len(data) - 200])
    with pytest.raises(InputError, match=r"cut\.jpg is truncated"):
        read_image(tmp_path / "cut.jpg")


@pytest.mark.parametrize(
    "data", [b"", b"x", b"not an image at all", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"BM", b"II*\0"]
)
def test_rubbish_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "rubbish.jpg").write_bytes(data)
    with pytest.raises(InputError, match=r"rubbish\.jpg"):
        read_image(tmp_path / "rubbish.jpg")


def test_missing_folder_and_float_images(tmp_path: Path) -> None:
    for path in (tmp_path / "none.png", tmp_path):
        with pytest.raises(InputError, match="no image file"):
            read_image(path)
    cv2.imwrite(str(tmp_path / "float.tiff"), np.zeros((4, 4), np.float32))
    with pytest.raises(InputError, match=r"float\.tiff.*unsupported kind"):
        read_image(tmp_path / "float.tiff")


def test_size_is_bounded_before_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, picture: np.ndarray
) -> None:
    monkeypatch.setattr(imagefile, "MAX_PIXELS", 40 * 60 - 1)
    for kind in ("PNG", "JPEG", "BMP", "WEBP", "TIFF"):
        (tmp_path / f"big.{kind}").write_bytes(_bytes(picture, kind))
        with pytest.raises(InputError, match=rf"big\.{kind} is too large \| got 40x60"):
            read_image(tmp_path / f"big.{kind}")
    monkeypatch.setattr(imagefile, "MAX_BYTES", 100)
    with pytest.raises(InputError, match="bytes"):
        read_image(tmp_path / "big.PNG")


@pytest.mark.parametrize("options", [{"lossless": True}, {"quality": 80}])
def test_header_size_of_webp_variants(picture: np.ndarray, options: dict[str, object]) -> None:
    assert imagefile.header_size(_bytes(picture, "WEBP", **options), Path("x")) == (40, 60)


def _bilinear(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Pixel-centre bilinear interpolation with clamped edges, in float64, one axis after the other."""
    result = image.astype(np.float64)
    for axis, wanted in enumerate(size):
        count = result.shape[axis]
        place = np.clip((np.arange(wanted) + 0.5) * count / wanted - 0.5, 0, count - 1)
        low = np.floor(place).astype(int)
        share = (place - low).reshape([-1 if a == axis else 1 for a in range(3)])
        high = np.minimum(low + 1, count - 1)
        result = result.take(low, axis) * (1 - share) + result.take(high, axis) * share
    return result


@pytest.mark.parametrize("size", [(40, 60), (80, 90), (13, 200), (20, 30), (7, 9)])
def test_linear_matches_the_reference(picture: np.ndarray, size: tuple[int, int]) -> None:
    got = resize_image(picture, size, "stretch", "linear")
    assert got.shape == (*size, 3)
    assert np.abs(got - _bilinear(picture, size)).max() <= 1.0  # fixed point: one level


def test_area_averages_when_shrinking_and_is_linear_when_enlarging(picture: np.ndarray) -> None:
    got = resize_image(picture, (20, 30), "stretch", "area")
    means = picture.reshape(20, 2, 30, 2, 3).mean((1, 3))
    assert np.abs(got - means).max() <= 0.75
    larger = resize_image(picture, (80, 60), "stretch", "area")
    assert np.array_equal(larger, resize_image(picture, (80, 60), "stretch", "linear"))


def test_letterbox_keeps_the_aspect_and_pads_with_the_mean(picture: np.ndarray) -> None:
    assert letterbox_window((40, 60), (100, 60)) == (30, 0, 40, 60)
    assert letterbox_window((40, 60), (40, 100)) == (0, 20, 40, 60)
    assert letterbox_window((1000, 1), (10, 10)) == (0, 4, 10, 1)
    got = resize_image(picture, (100, 60), "letterbox", "linear", (1, 2, 3))
    assert np.array_equal(got[30:70], picture)
    assert (got[:30] == (1, 2, 3)).all() and (got[70:] == (1, 2, 3)).all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_float_input_matches_the_definition(picture: np.ndarray, dtype: str) -> None:
    rule = Preprocess((40, 60), MEAN, STD, in_graph=False)
    got = prepare_input(picture, rule, TensorSpec("x", dtype, (1, 3, 40, 60), "NCHW"))
    expected = ((picture / 255.0 - MEAN) / STD).transpose(2, 0, 1)[None]
    assert got.dtype == dtype and got.flags.c_contiguous
    np.testing.assert_allclose(got, expected, atol=2e-6 if dtype == "float32" else 3e-3)
    last = prepare_input(picture, rule, TensorSpec("x", dtype, (1, 40, 60, 3), "NHWC"))
    assert np.array_equal(last.transpose(0, 3, 1, 2), got) and last.flags.c_contiguous


def test_in_graph_input_is_the_frame_itself(picture: np.ndarray) -> None:
    rule = Preprocess((40, 60), MEAN, STD, in_graph=True)
    got = prepare_input(picture, rule, TensorSpec("x", "uint8", (1, 40, 60, 3), "NHWC"))
    assert np.array_equal(got[0], picture) and got.shape == (1, 40, 60, 3)
    assert prepare_input(
        picture[:, ::-1], rule, TensorSpec("x", "uint8", (1, 40, 60, 3), "NHWC")
    ).flags.c_contiguous


def test_an_input_it_cannot_make_is_refused(picture: np.ndarray) -> None:
    rule = Preprocess((40, 60), MEAN, STD, in_graph=True)
    with pytest.raises(InputError, match="int8 NCHW"):
        prepare_input(picture, rule, TensorSpec("x", "int8", (1, 3, 40, 60), "NCHW"))
