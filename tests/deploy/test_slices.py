"""Slices of a volume as frames and back, windowing, and places in the patient that survive both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from deploy.errors import InputError
from deploy.labels import hu_scale, read_dataset
from deploy.manifest import Preprocess, SliceRule, check_ct
from deploy.metrics import ConfusionMatrix, mean_dice, overlap_scores, volume_scores
from deploy.preprocess import HuScale, read_hu, read_image, window_hu
from deploy.slices import frame_affine, labels_of_slice, layout, slice_frame, slice_mask
from deploy.slicetable import SliceRow, read_slices, volumes_of, write_slices
from deploy.volume import AIR, Volume, paint

RULE = SliceRule(2.0, (40, 60))
WIDE = (-160.0, 240.0)


def _volume(
    shape: tuple[int, int, int] = (5, 48, 64), spacing: tuple[float, float, float] = (5, 1, 1.5)
) -> Volume:
    hu = np.random.default_rng(0).integers(-1000, 1000, shape).astype(np.int16)
    affine = np.diag([-spacing[2], -spacing[1], spacing[0], 1.0])
    affine[:3, 3] = (50, 40, -20)
    return Volume("v", hu, affine)


def test_the_window_clips_before_it_scales() -> None:
    hu = np.array([-32768, -161, -160, 40, 240, 241, 3071, 32767], np.int16)
    assert window_hu(hu, WIDE).tolist() == [0, 0, 0, 128, 255, 255, 255, 255]
    for window in (WIDE, (-1350.0, 150.0), (-32768.0, 32768.0)):
        every = np.arange(-32768, 32768).astype(np.int16)
        inside = np.clip(every.astype(np.float64), *window)
        exact = (inside - window[0]) / (window[1] - window[0]) * 255
        assert np.abs(window_hu(every, window) - exact).max() <= 0.501


def test_stored_slices_are_windowed_like_slices_in_memory(tmp_path: Path) -> None:
    hu = _volume().hu[0]
    stored = (hu.astype(np.int32) + 32768).astype(np.uint16)
    cv2.imwrite(str(tmp_path / "s.png"), stored)
    assert np.array_equal(read_hu(tmp_path / "s.png", 32768)[..., 0], hu)
    image = read_image(tmp_path / "s.png", HuScale(32768, WIDE))
    assert np.array_equal(image, np.repeat(window_hu(hu, WIDE)[..., None], 3, -1))
    cv2.imwrite(str(tmp_path / "eight.png"), window_hu(hu, WIDE))
    with pytest.raises(InputError, match=r"eight\.png.*16 bits"):
        read_image(tmp_path / "eight.png", HuScale(32768, WIDE))
    with pytest.raises(InputError, match="Hounsfield units"):
        read_hu(tmp_path / "s.png", 0)


def test_without_a_rule_a_frame_is_the_slice() -> None:
    volume = _volume()
    assert np.array_equal(slice_frame(volume, 2, SliceRule()), np.repeat(volume.hu[2][..., None], 3, -1))
    labels = (volume.hu[2] % 3).astype(np.uint8)
    assert np.array_equal(slice_mask(labels, volume, SliceRule()), labels)
    assert np.array_equal(labels_of_slice(labels, volume, SliceRule()), labels)


@pytest.mark.parametrize(("step", "expected"), [(5.0, (1, 2, 3)), (9.0, (0, 2, 4)), (1.0, (1, 2, 3))])
def test_neighbours_are_the_slices_so_far_away(step: float, expected: tuple[int, ...]) -> None:
    volume = _volume()
    frame = slice_frame(volume, 2, SliceRule(neighbour_mm=step))
    assert np.array_equal(frame, volume.hu[list(expected)].transpose(1, 2, 0))
    first = slice_frame(volume, 0, SliceRule(neighbour_mm=step))
    assert np.array_equal(first[..., 0], volume.hu[0]), "at the end the last slice stands for those beyond"


def test_resampled_and_cut_to_the_canvas() -> None:
    volume = _volume()  # 48x64 pixels of 1 x 1.5 mm
    assert layout(volume, RULE) == ((24, 48), (-8, -6))
    frame = slice_frame(volume, 1, RULE)
    assert frame.shape == (40, 60, 3) and frame.dtype == np.int16
    assert (frame[:8] == AIR).all() and (frame[32:] == AIR).all() and (frame[:, :6] == AIR).all()
    assert frame[8:32, 6:54].mean() == pytest.approx(volume.hu[1].mean(), abs=1.5)


def test_a_place_in_the_patient_stays_where_it_is() -> None:
    volume = _volume()
    volume.hu[:] = -1000
    volume.hu[1, 20:24, 30:34] = 1000
    frame = slice_frame(volume, 1, RULE)[..., 0] > 0
    middles = (np.argwhere(frame).mean(0)[::-1], np.array([31.5, 21.5]))
    places = [
        affine @ [*middle, 1, 1]
        for affine, middle in zip((frame_affine(volume, RULE), volume.affine), middles, strict=True)
    ]
    np.testing.assert_allclose(places[0], places[1], atol=0.6)


def test_labels_come_back_to_their_pixels() -> None:
    volume = _volume((2, 80, 96), (5, 1, 1))
    labels = np.zeros((80, 96), np.uint8)
    labels[30:50, 40:64] = 1
    back = labels_of_slice(slice_mask(labels, volume, RULE), volume, RULE)
    assert back.shape == labels.shape and np.array_equal(back, labels), "2 mm pixels divide these edges"
    labels[0, 0] = 1  # the canvas, 80x120 mm, holds all of it
    narrow = SliceRule(2.0, (10, 10))
    assert labels_of_slice(slice_mask(np.ones_like(labels), volume, narrow), volume, narrow).sum() == 20 * 20


def test_bounds_of_window_and_rule() -> None:
    check_ct(WIDE, RULE, "x")
    for window, rule, message in (
        ((240.0, -160.0), None, "hu_window"),
        ((-1e9, 0.0), None, "hu_window"),
        (None, SliceRule(), "no hu_window"),
        (WIDE, SliceRule(spacing_mm=1.0), "spacing_mm and canvas"),
        (WIDE, SliceRule(0.0, (8, 8)), "spacing_mm"),
        (WIDE, SliceRule(neighbour_mm=1e6), "neighbour_mm"),
        (WIDE, SliceRule(1.0, (0, 8)), "canvas"),
    ):
        with pytest.raises(InputError, match=message):
            check_ct(window, rule, "x")


def test_data_and_network_must_agree_on_slices(tmp_path: Path) -> None:
    text = 'classes = ["a", "b"]\nmodality = "ct"\nhu_offset = 32768\nspacing_mm = 2.0\ncanvas = [40, 60]\n'
    (tmp_path / "dataset.toml").write_text(text)
    info = read_dataset(tmp_path)
    rule = Preprocess((40, 60), (0.5,) * 3, (0.5,) * 3, False, hu_window=WIDE, slices=RULE)
    assert info.slices == RULE and hu_scale(info, rule) == HuScale(32768, WIDE)
    with pytest.raises(InputError, match="no window"):
        hu_scale(info, replace(rule, hu_window=None, slices=None))
    with pytest.raises(InputError, match="another rule"):
        hu_scale(info, replace(rule, slices=SliceRule()))
    for line, message in (("hu_offset = -1", "hu_offset"), ("spacing_mm = 1.0", "no hu_offset")):
        (tmp_path / "dataset.toml").write_text(f'classes = ["a", "b"]\n{line}\n')
        with pytest.raises(InputError, match=message):
            read_dataset(tmp_path)


def test_the_table_of_slices_reads_back(tmp_path: Path) -> None:
    affine = tuple(frame_affine(_volume(), RULE).ravel().tolist())
    rows = [SliceRow("val", f"v,1_{i}", "p1", "v,1", i, (5.0, 2.0, 2.0), affine) for i in range(3)]
    write_slices(tmp_path, rows)
    assert read_slices(tmp_path) == rows
    assert volumes_of(tmp_path, "val") == {row.stem: "v,1" for row in rows} and not volumes_of(
        tmp_path, "train"
    )
    (tmp_path / "slices.csv").write_text((tmp_path / "slices.csv").read_text()[:-20])
    with pytest.raises(InputError, match=r"slices\.csv is damaged"):
        read_slices(tmp_path)


def test_later_classes_cover_earlier_ones_where_that_was_asked() -> None:
    liver, lesion = np.zeros((2, 1, 4, 4), np.bool_)
    liver[0, :3], lesion[0, 1, 1] = True, True
    masks = [("lesion", lesion), ("liver", liver), ("other", ~liver)]
    labels = paint(liver.shape, masks, ("background", "liver", "lesion"), "x")
    assert np.bincount(labels.ravel()).tolist() == [4, 11, 1] and labels[0, 1, 1] == 2
    with pytest.raises(InputError, match="overlaps another structure"):
        paint(liver.shape, masks, ("background", "lesion", "liver"), "x", ranked=False)
    with pytest.raises(InputError, match="without labels"):
        paint(liver.shape, masks, ("background", "spleen"), "x")


def test_dice_and_iou_by_volume_and_over_all() -> None:
    rng = np.random.default_rng(1)
    truth, found = rng.integers(0, 3, (2, 4, 8, 8), np.uint8)
    truth[2:][truth[2:] == 2] = 0
    found[2:][found[2:] == 2] = 0
    names, volumes = ("b", "x", "y"), ["v1", "v1", "v2", "v2"]
    matrices = [ConfusionMatrix(3) for _ in range(4)]
    for matrix, one, other in zip(matrices, found, truth, strict=True):
        matrix.update(one, other)
    hits, unions = (np.stack(parts) for parts in zip(*(m.overlap() for m in matrices), strict=True))
    scores = volume_scores(hits, unions, volumes, names)
    for volume, part in (("v1", slice(0, 2)), ("v2", slice(2, 4))):
        for index, name in enumerate(names[:2]):
            a, b = found[part] == index, truth[part] == index
            assert scores[volume]["dice"][name] == pytest.approx(2 * (a & b).sum() / (a.sum() + b.sum()))
            assert scores[volume]["iou"][name] == pytest.approx((a & b).sum() / (a | b).sum())
    assert scores["v2"]["dice"]["y"] is None
    means = mean_dice({volume: one["dice"] for volume, one in scores.items()}, names)
    assert means["y"] == scores["v1"]["dice"]["y"]
    assert means["x"] == pytest.approx((scores["v1"]["dice"]["x"] + scores["v2"]["dice"]["x"]) / 2)
    total = overlap_scores(hits.sum(0), unions.sum(0), names)
    a, b = found == 1, truth == 1
    assert total["dice"]["x"] == pytest.approx(2 * (a & b).sum() / (a.sum() + b.sum()))
