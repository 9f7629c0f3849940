#!/usr/bin/env python3
"""block_hashes.py [--ggml LIBRARY]: hashes of what block formats stand for, for tests/ops/quant_test.cpp

Blocks of pseudorandom bytes are dequantized by the Python package gguf, and where that has no dequantizer
by the functions of ggml's shared library (libggml-base.so). Per format one line: the hash (FNV-1a, 64 bits)
of the bits of all values."""

import argparse
import ctypes

import gguf
import numpy as np

BLOCKS = 512
# Format, bytes of a block, values of a block, where its f16 scales are.
FORMATS = [("mxfp4", 17, 32, []), ("nvfp4", 36, 64, []), ("tq1_0", 54, 256, [52]), ("tq2_0", 66, 256, [64]),
           ("q1_0", 18, 128, [0]), ("q2_0", 18, 64, [0])]


def make_blocks(size, halves):
    state, blocks = 1, np.zeros((BLOCKS, size), np.uint8)
    for block in blocks:
        for i in range(size):
            state = (state * 1664525 + 1013904223) % 2**32
            block[i] = state >> 24
        for at in halves:  # exponents 1 .. 16 of 31
            block[at + 1] = block[at + 1] & 0x83 | 4 * (1 + (block[at + 1] >> 2) % 16)
    return blocks


def with_ggml(library, name, blocks, values):
    out = np.zeros(BLOCKS * values, np.float32)
    function = getattr(ctypes.CDLL(library), f"dequantize_row_{name}")
    function(blocks.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
             ctypes.c_int64(out.size))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ggml", help="libggml-base.so")
    options = parser.parse_args()
    for name, size, values, halves in FORMATS:
        blocks = make_blocks(size, halves)
        kind = getattr(gguf.GGMLQuantizationType, name.upper(), None)
        try:
            got = gguf.dequantize(blocks, kind).reshape(-1) if kind is not None else None
        except NotImplementedError:
            got = None
        source = "gguf"
        if got is None and options.ggml:
            got, source = with_ggml(options.ggml, name, blocks, values), "ggml"
        if got is None:
            print(f"{name}: no dequantizer")
            continue
        assert got.size == BLOCKS * values
        state = 0xcbf29ce484222325
        for byte in got.astype("<f4").tobytes():
            state = (state ^ byte) * 0x100000001b3 % 2**64
        print(f"{name} 0x{state:016x} {source}")


if __name__ == "__main__":
    main()
