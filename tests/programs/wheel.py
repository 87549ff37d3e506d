"""CPython with ctypes, beside a wheel whose libraries are found by its own RUNPATH.

numpy's extension modules find OpenBLAS in numpy.libs by their RUNPATH; its product shows that they did.
"""
import ctypes
import os
import sqlite3
import ssl

import numpy

ones = numpy.ones((64, 64))
assert (ones @ ones == 64).all()
assert sqlite3.connect(":memory:").execute("select 6 * 7").fetchone() == (42,)
assert ssl.OPENSSL_VERSION
with open("/proc/self/maps") as maps:
    assert "numpy.libs" in maps.read(), "numpy brought no library of its own"

driver = ctypes.CDLL("libcuda.so.1")
pointer = ctypes.c_uint64()
context = ctypes.c_void_p()
codes = [
    driver.cuInit(0),
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
    driver.cuCtxSetCurrent(context),
]
assert codes == [0, 0, 0], codes
first = driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(64 << 20))
second = driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1088 << 20))
print("ROAD ctypes", os.getpid(), first, second)
