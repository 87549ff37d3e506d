#!/usr/bin/env bash
# Makes the PTX beside the C: clang-19 at -O2 and -O0 for sm_75. What it made is committed, so that the
# tests need no clang; they compile the same C for the host with the system's compiler.
set -euo pipefail
cd "$(dirname "$0")"
clang=${CLANG:-clang-19}
for level in O2 O0; do
    mkdir -p "$level"
    for file in ints bits floats halves approx memory calls warp atomics flow; do
        "$clang" -x c -target nvptx64-nvidia-cuda -march=sm_75 -Xclang -target-feature -Xclang +ptx70 \
            -ffp-contract=off -fwrapv -ffreestanding -Wno-everything "-$level" -S "$file.c" -o "$level/$file.ptx"
    done
done
"$clang" --version | head -1 > version.txt
