"""Device memory and the GPU's name from CUDA's runtime library, which every JetPack has; no package needed.

Refuses to know TensorRT. Source: https://docs.nvidia.com/cuda/cuda-runtime-api.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any

import numpy.typing as npt

from deploy.errors import InputError

LIBRARIES = ("libcudart.so", "libcudart.so.13", "libcudart.so.12")
_MAJOR, _MINOR = 75, 76  # cudaDevAttrComputeCapability*
_TO_DEVICE, _TO_HOST = 1, 2
_PROPERTIES_BYTES = 1 << 14  # more than any version's cudaDeviceProp; it begins with the name, 256 bytes


class Cuda:
    """The first GPU, and a stream on it.

    Raises:
        InputError: no CUDA library, no GPU, or CUDA's own error.
    """

    def __init__(self) -> None:
        self._library = _open()
        count = ctypes.c_int()
        self._call("cudaGetDeviceCount", ctypes.byref(count))
        self._stream = ctypes.c_void_p()
        self._call("cudaStreamCreate", ctypes.byref(self._stream))

    @property
    def stream(self) -> int:
        """Handle for TensorRT."""
        return self._stream.value or 0

    def gpu(self) -> str:
        """Name and compute capability: "Orin, 8.7"."""
        properties = ctypes.create_string_buffer(_PROPERTIES_BYTES)
        self._call("cudaGetDeviceProperties", properties, 0)
        numbers = []
        for attribute in (_MAJOR, _MINOR):
            value = ctypes.c_int()
            self._call("cudaDeviceGetAttribute", ctypes.byref(value), attribute, 0)
            numbers.append(str(value.value))
        return f"{properties.value.decode()}, {'.'.join(numbers)}"

    def allocate(self, size_bytes: int) -> int:
        """Device memory; freed by `free`."""
        pointer = ctypes.c_void_p()
        self._call("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(size_bytes))
        return pointer.value or 0

    def free(self, *pointers: int) -> None:
        """Give back device memory."""
        for pointer in pointers:
            self._call("cudaFree", ctypes.c_void_p(pointer))

    def upload(self, array: npt.NDArray[Any], pointer: int) -> None:
        """Copy a contiguous array to the device, in the stream's order."""
        assert array.flags.c_contiguous
        self._copy(pointer, array.ctypes.data, array.nbytes, _TO_DEVICE)

    def download(self, pointer: int, array: npt.NDArray[Any]) -> None:
        """Fill a contiguous array from the device, and wait until it is there."""
        assert array.flags.c_contiguous
        self._copy(array.ctypes.data, pointer, array.nbytes, _TO_HOST)
        self._call("cudaStreamSynchronize", self._stream)

    def close(self) -> None:
        """Free the stream."""
        self._call("cudaStreamDestroy", self._stream)

    def _copy(self, target: int, source: int, size: int, kind: int) -> None:
        pointers = ctypes.c_void_p(target), ctypes.c_void_p(source)
        self._call("cudaMemcpyAsync", *pointers, ctypes.c_size_t(size), kind, self._stream)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            describe = self._library.cudaGetErrorString
            describe.restype = ctypes.c_char_p
            raise InputError(
                f"CUDA {name}", got=f"{describe(code).decode()} ({code})", fix="run on a GPU of NVIDIA's"
            )


def _open() -> Any:
    for name in (ctypes.util.find_library("cudart"), *LIBRARIES):
        if name:
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
    raise InputError(
        "CUDA's runtime library",
        got="none found",
        expected=" or ".join(LIBRARIES),
        fix="install JetPack's CUDA",
    )
