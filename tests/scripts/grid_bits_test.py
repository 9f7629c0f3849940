"""tests/ops/grid_bits.def: what the gguf package makes of the grid formats. With --write the rows are made anew."""

import pathlib
import sys
import unittest

try:
    import gguf
    import numpy as np
    from gguf.quants import dequantize
except ImportError:
    gguf = None

DEF = pathlib.Path(__file__).resolve().parent.parent / "ops" / "grid_bits.def"
HEADER = """// GRID_BITS(format, sum): the bits of 4,096 blocks of pseudorandom bytes, decoded by the Python package
// gguf and summed as quant_test.cpp does. tests/scripts/grid_bits_test.py --write FORMAT... makes them.
"""
FOOTER = "#undef GRID_BITS\n"
BLOCKS = 4096


def mix(i):
    z = (i + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def put_exponents(name, blocks):
    exponents = 1 + np.arange(BLOCKS) % 16
    if name != "iq1_m":
        blocks[:, 1] = (blocks[:, 1] & 0x83) | (exponents << 2)
        return
    # The lowest four bits of the f16 are in the first of four 16-bit words, in their top.
    halves = sum((blocks[:, 49 + 2 * i].astype(np.int64) >> 4) << (4 * i) for i in range(4))
    halves = (halves & 0x83FF) | (exponents << 10)
    for i in range(4):
        blocks[:, 49 + 2 * i] = (blocks[:, 49 + 2 * i] & 15) | ((halves >> (4 * i) & 15) << 4)


def row(name):
    kind = gguf.GGMLQuantizationType[name.upper()]
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = (mix(np.arange(BLOCKS * size, dtype=np.uint64)) & np.uint64(255)).astype(np.uint8).reshape(BLOCKS, size)
    put_exponents(name, blocks)
    bits = dequantize(blocks, kind).astype(np.float32).reshape(-1).view(np.uint32).astype(np.uint64)
    total = (mix(np.arange(bits.size, dtype=np.uint64)) * bits).sum(dtype=np.uint64)
    return f"GRID_BITS({name}, 0x{int(total):016x}u)\n"


@unittest.skipUnless(gguf, "the package gguf is not there")
class GridBits(unittest.TestCase):
    def test_rows(self):
        rows = [line for line in DEF.read_text().splitlines(True) if line.startswith("GRID_BITS(")]
        self.assertGreater(len(rows), 0)
        for line in rows:
            self.assertEqual(line, row(line[len("GRID_BITS("):line.index(",")]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        DEF.write_text(HEADER + "".join(map(row, sys.argv[2:])) + FOOTER)
    else:
        unittest.main()
