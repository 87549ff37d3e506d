"""Products by tinygrad, each of new matrices and compared with numpy's, until a line comes in. What it
is told of the card's size is printed with each."""
import ctypes
import select
import sys

import numpy as np
from tinygrad import Tensor


def total():
    driver = ctypes.CDLL("libcuda.so.1")
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    code = driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    assert code == 0, f"cuMemGetInfo gave {code}"
    assert free.value <= total.value
    return total.value


rng = np.random.default_rng(11)
rounds = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    a = rng.standard_normal((48, 32), dtype=np.float32)
    b = rng.standard_normal((32, 40), dtype=np.float32)
    np.testing.assert_allclose((Tensor(a) @ Tensor(b)).numpy(), a @ b, rtol=1e-4, atol=1e-4)
    rounds += 1
    print("ROUND", total(), flush=True)
print("RIGHT", rounds, flush=True)
