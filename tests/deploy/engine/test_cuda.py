"""CUDA's runtime library by ctypes: on a machine without a GPU, its own answers; on one with, memory."""

from __future__ import annotations

import numpy as np
import pytest

from deploy.engine import cuda
from deploy.errors import InputError


def available() -> bool:
    try:
        cuda.Cuda().close()
    except InputError:
        return False
    return True


GPU = available()


@pytest.mark.skipif(GPU, reason="there is a GPU")
def test_without_library_or_gpu_the_error_is_one_line_that_says_so() -> None:
    with pytest.raises(InputError, match=r"CUDA's runtime library \| got none found|CUDA cudaGetDeviceCount"):
        cuda.Cuda()


def test_without_library_the_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "LIBRARIES", ("libno-such-cudart.so",))
    monkeypatch.setattr(cuda.ctypes.util, "find_library", lambda name: None)
    with pytest.raises(InputError, match=r"libno-such-cudart\.so \| install JetPack's CUDA"):
        cuda.Cuda()


@pytest.mark.skipif(not GPU, reason="not run: no GPU")
def test_memory_goes_there_and_back() -> None:
    device = cuda.Cuda()
    sent = np.arange(1000, dtype=np.float32)
    memory = device.allocate(sent.nbytes)
    device.upload(sent, memory)
    back = np.zeros_like(sent)
    device.download(memory, back)
    device.free(memory)
    device.close()
    np.testing.assert_array_equal(back, sent)
