"""A matrix product by tinygrad on the GPU it is given, compared with numpy's; then, if a number of
MiB is given, one allocation of that size, which must end in tinygrad's out-of-memory error.

    matmul.py [MIB]
"""
import ctypes
import sys

import numpy as np
from tinygrad import Device, Tensor, dtypes


def memory_info():
    """Free and total bytes as the driver tells any program."""
    driver = ctypes.CDLL("libcuda.so.1")
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    code = driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    assert code == 0, f"cuMemGetInfo gave {code}"
    return free.value, total.value


rng = np.random.default_rng(7)
a = rng.standard_normal((96, 64), dtype=np.float32)
b = rng.standard_normal((64, 80), dtype=np.float32)
product = (Tensor(a) @ Tensor(b)).numpy()
assert Device.DEFAULT.startswith("CUDA"), Device.DEFAULT
np.testing.assert_allclose(product, a @ b, rtol=1e-4, atol=1e-4)
print("PRODUCT equals numpy's", flush=True)
print("TOTAL", memory_info()[1], flush=True)

if len(sys.argv) > 1:
    try:
        Tensor.full((int(sys.argv[1]) << 20,), 7, dtype=dtypes.uint8).contiguous().realize()
        print("GRANTED", flush=True)
    except (MemoryError, RuntimeError) as error:
        print("REFUSED", type(error).__name__, str(error).splitlines()[0], flush=True)
