import unittest

from script_test import ScriptTest

import check_layers

TREE = (
    "include/onepass/result.h", "src/core/backend.h", "src/graph/hazards.h", "src/io/gguf.h",
    "src/text/tokenizer/tokenizer.h", "src/model/weights.h", "src/run/decoder.h",
    "src/ops/norm/params.h", "src/ops/shared/fusions.h",
    "src/ops/norm/kernels.h", "src/ops/norm/norm.h", "src/ops/norm/cpu_rows.h",
    "src/ops/rope/cpu_rows.h", "src/ops/rope/kernels.h", "src/ops/shared/lang.h",
    "src/quant/q8_0.h", "src/backends/cpu/cpu.h", "src/backends/null/null.h",
    "tools/onepass/print.h",
)

ALLOWED = (
    ("tools/onepass/main.cpp", "run/decoder.h"),
    ("tools/onepass/main.cpp", "print.h"),
    ("src/run/decoder.cpp", "model/weights.h"),
    ("src/run/decoder.cpp", "text/tokenizer/tokenizer.h"),
    ("src/model/families/llama.cpp", "model/weights.h"),
    ("src/model/families/llama.cpp", "onepass/result.h"),
    ("src/model/text_model.cpp", "text/tokenizer/tokenizer.h"),
    ("src/text/tokenizer/from_gguf.cpp", "io/gguf.h"),
    ("src/io/gguf.cpp", "core/backend.h"),
    ("src/ops/norm/norm.cpp", "graph/hazards.h"),
    ("src/ops/norm/launch.cpp", "ops/norm/kernels.h"),
    ("src/ops/norm/cpu.cpp", "ops/norm/params.h"),
    ("src/ops/norm/cpu.cpp", "cpu_rows.h"),
    ("src/ops/norm/cuda_rows.cu", "quant/q8_0.h"),
    ("src/graph/plan.cpp", "core/backend.h"),
    ("src/graph/fuse.cpp", "ops/shared/fusions.h"),
    ("src/core/tables.cpp", "ops/norm/params.h"),
    ("src/core/backend_list.cpp", "backends/cpu/cpu.h"),
    ("src/backends/cpu/threads.cpp", "core/backend.h"),
    ("src/backends/cpu/kernel_table.cpp", "ops/norm/kernels.h"),
    ("src/backends/cpu/kernel_table.cpp", "cpu.h"),
    ("src/backends/null/null.cpp", "backends/cpu/cpu.h"),
    ("src/ops/norm/params.h", "ops/shared/lang.h"),
    ("examples/01_add.cpp", "onepass/result.h"),
)

FORBIDDEN = (
    ("src/run/decoder.cpp", "backends/cpu/cpu.h"),
    ("src/run/decoder.cpp", "ops/norm/norm.h"),
    ("src/model/weights.cpp", "run/decoder.h"),
    ("src/model/weights.cpp", "graph/hazards.h"),
    ("src/model/weights.cpp", "ops/norm/norm.h"),
    ("src/text/tokenizer/from_gguf.cpp", "model/weights.h"),
    ("src/text/tokenizer/from_gguf.cpp", "run/decoder.h"),
    ("src/io/gguf.cpp", "ops/norm/norm.h"),
    ("src/io/gguf.cpp", "text/tokenizer/tokenizer.h"),
    ("src/io/gguf.cpp", "graph/hazards.h"),
    ("src/graph/plan.cpp", "model/weights.h"),
    ("src/ops/norm/norm.cpp", "io/gguf.h"),
    ("src/ops/norm/norm.cpp", "backends/cpu/cpu.h"),
    ("src/ops/norm/cpu.cpp", "graph/hazards.h"),
    ("src/ops/norm/cpu_avx2.cpp", "graph/hazards.h"),
    ("src/ops/norm/cuda.cu", "graph/hazards.h"),
    ("src/ops/norm/cpu.cpp", "ops/rope/cpu_rows.h"),
    ("src/ops/norm/norm.cpp", "ops/rope/kernels.h"),
    ("src/graph/plan.cpp", "backends/cpu/cpu.h"),
    ("src/graph/plan.cpp", "ops/norm/norm.h"),
    ("src/core/buffer.cpp", "graph/hazards.h"),
    ("src/core/buffer.cpp", "backends/cpu/cpu.h"),
    ("src/backends/cpu/cpu.cpp", "ops/norm/kernels.h"),
    ("src/backends/cpu/kernel_table.cpp", "ops/norm/norm.h"),
    ("src/backends/cpu/cpu.cpp", "backends/null/null.h"),
    ("src/backends/cpu/cpu.cpp", "graph/hazards.h"),
    ("src/quant/q8_0.h", "core/backend.h"),
    ("include/onepass/buffer.h", "core/backend.h"),
    ("include/onepass/buffer.h", "../../src/core/backend.h"),
    ("examples/01_add.cpp", "core/backend.h"),
)


class CheckLayers(ScriptTest):
    def setUp(self):
        super().setUp()
        for path in TREE:
            self.write(path, "#pragma once\n")

    def include(self, path, name):
        self.write(path, f'#include <vector>\n#include "{name}"\n')
        return self.run_main(check_layers.main, self.root)

    def test_allowed(self):
        for path, name in ALLOWED:
            with self.subTest(path=path, name=name):
                status, text = self.include(path, name)
                self.assertEqual(status, 0, text)
                self.write(path, "")

    def test_forbidden(self):
        for path, name in FORBIDDEN:
            with self.subTest(path=path, name=name):
                status, text = self.include(path, name)
                self.assertEqual(status, 1)
                self.assertIn(f"{path}:2: ", text)
                self.write(path, "")

    def test_angle_brackets_count_too(self):
        self.write("src/graph/a.cpp", "#  include <backends/cpu/cpu.h>\n")
        self.assertEqual(self.run_main(check_layers.main, self.root)[0], 1)

    def test_missing_own_header(self):
        status, text = self.include("src/graph/a.cpp", "core/nothing.h")
        self.assertEqual(status, 1)
        self.assertIn("core/nothing.h does not exist", text)

    def test_folder_without_layer(self):
        self.write("src/misc/a.cpp", "")
        status, text = self.run_main(check_layers.main, self.root)
        self.assertEqual(status, 1)
        self.assertIn("src/misc/a.cpp: belongs to no layer", text)


if __name__ == "__main__":
    unittest.main()
