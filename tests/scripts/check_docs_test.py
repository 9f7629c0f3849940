import os
import unittest

from script_test import ROOT, ScriptTest

import check_docs

HEADER = "// A pool.\n//\n//   Pool pool;\n//   pool.take();  // a buffer\n//\n// More.\n#pragma once\n"
SNIPPET = "void f() {\n  // [pool.h]\n  Pool pool;\n  pool.take();  // a buffer\n  // [pool.h]\n}\n"
EXAMPLE = "int main() {\n  int x = 0;\n  ++x;\n\n  if (x) {\n    x = 2;\n  }\n}\n"


class CheckDocs(ScriptTest):
    def setUp(self):
        super().setUp()
        self.write("include/onepass/pool.h", HEADER)
        self.write("examples/snippets/core.cpp", SNIPPET)
        self.write("examples/01_x.cpp", EXAMPLE)
        self.write("docs/README.md", "# Docs\n\n[Use it](use.md), [why](adr/README.md)\n")
        self.write("docs/adr/README.md", "# Why\n\n[X](0001-x.md)\n")
        self.write("docs/use.md", "# Use\n\n## In `C++`, 1st\n\n[back](README.md#docs)\n")
        self.write("docs/adr/0001-x.md", "# X\n")
        self.write("README.md", "[use](docs/use.md#in-c-1st) [web](https://example.org) `[a](b)`\n")

    def says(self, *parts):
        status, text = self.run_main(check_docs.main, [self.root])
        self.assertEqual(status, 1, text)
        for part in parts:
            self.assertIn(part, text)
        self.assertEqual(len(text.splitlines()), len(parts), text)

    def passes(self):
        self.assertEqual(self.run_main(check_docs.main, [self.root])[0], 0)

    def test_the_tree_passes(self):
        self.passes()

    def test_the_repository_passes(self):
        status, text = self.run_main(check_docs.main, [ROOT])
        self.assertEqual(status, 0, text)

    def test_roads_name_functions_that_files_define(self):
        road = "# Use\n\n```road\nsrc/a.cpp  Pool::take  a buffer\n```\n\n## In `C++`, 1st\n"
        self.write("src/a.cpp", "Buffer Pool::take(int bytes) {\n  return {};\n}\n")
        self.write("docs/use.md", road)
        self.passes()
        self.write("src/a.cpp", "void f() { Pool::take(1); }\nBuffer Pool::take(int bytes);\n")
        self.says("docs/use.md:4: src/a.cpp does not define Pool::take")
        self.write("docs/use.md", road.replace("a.cpp", "b.cpp"))
        self.says("docs/use.md:4: there is no src/b.cpp")

    def test_roads_are_calls(self):
        road = ["src/a.cpp  run       words", "src/a.cpp    Pool::take  a buffer",
                "src/a.cpp  give      back"]

        def write(lines):
            self.write("docs/use.md",
                       "# Use\n\n```road\n" + "\n".join(lines) + "\n```\n\n## In `C++`, 1st\n")

        code = ("void run(int n) {\n  if (n) { pool.take<Buffer>(1); }\n}\n"
                "Buffer Pool::take(int bytes) {\n  return {};\n}\nvoid give() {}\n")
        self.write("src/a.cpp", code)
        write(road)
        self.passes()
        self.write("src/a.cpp", code.replace("take<Buffer>(1)", "mistake(1)"))
        self.says("docs/use.md:5: run does not call Pool::take")
        write([road[0], road[1].replace("a buffer", "through a table"), road[2]])
        self.passes()
        self.write("src/a.cpp", "void f() { f(); }\n")
        deep = ["src/a.cpp " + "  " * depth + "f" for depth in range(13)]
        write(deep[:12])
        self.passes()
        write(deep)
        self.says("docs/use.md:16: f is 13 calls deep, at most 12")

    def test_headers_have_the_lines_that_are_compiled(self):
        self.write("examples/snippets/core.cpp", SNIPPET.replace("pool.take()", "pool.get()"))
        self.says("include/onepass/pool.h:3: not the lines marked [pool.h]")
        self.run_main(check_docs.main, ["--fix", self.root])
        self.passes()
        with open(os.path.join(self.root, "include/onepass/pool.h"), encoding="utf-8") as file:
            self.assertEqual(file.read(), HEADER.replace("pool.take()", "pool.get()"))

    def test_every_header_has_an_example(self):
        self.write("include/onepass/ops/norm.h", "// Norms.\n#pragma once\n")
        self.says("norm.h: no lines of examples/snippets are marked [ops/norm.h]")
        self.write("examples/snippets/ops.cpp", "// [ops/norm.h]\nnorm();\n// [ops/norm.h]\n")
        self.says("norm.h: does not open with an example")

    def test_examples_are_short(self):
        lines = [f"f{i}();" for i in range(9)]
        self.write("examples/snippets/core.cpp", "\n".join(["// [pool.h]", *lines, "// [pool.h]\n"]))
        self.write("include/onepass/pool.h", "// A\n" + "".join(f"//   {line}\n" for line in lines))
        self.says("an example of 9 lines, at most 8")

    def test_marks_are_pairs(self):
        self.write("examples/snippets/ops.cpp", "// [a]\nx\n")
        self.says("ops.cpp:1: [a] has no end")
        self.write("examples/snippets/ops.cpp", "// [pool.h]\nx\n// [pool.h]\n")
        self.says("[pool.h] is marked twice", "not the lines marked")
        self.write("examples/snippets/ops.cpp", "// [gone.h]\nx\n// [gone.h]\n")
        self.says("[gone.h] is no header")

    def test_code_in_documents_is_compiled(self):
        self.write("docs/use.md", "# Use\n\n```cpp\nint x = 0;\n// ...\nif (x) {\n  x = 2;\n}\n```\n\n"
                                  "## In `C++`, 1st\n")
        self.passes()  # not one of the documents that are checked
        self.write("docs/c-api.md", "```cpp\nint x = 0;\n// ...\nif (x) {\n  x = 2;\n}\n```\n[u](use.md)\n")
        self.write("docs/README.md", "# Docs\n[a](use.md) [b](c-api.md) [c](adr/README.md)\n")
        self.passes()
        for wrong in ("int x = 1;", "int x = 0;\nif (x) {", "if (x) {\n// ...\n++x;"):
            self.write("docs/c-api.md", f"text\n\n```cpp\n{wrong}\n```\n")
            self.says("docs/c-api.md:4: these lines are in no file of examples")

    def test_links_lead_somewhere(self):
        self.write("docs/use.md", "# Use\n\n[a](gone.md)\n\n```sh\n[b](gone.md)\n```\n## In `C++`, 1st\n")
        self.says("docs/use.md:3: gone.md leads nowhere")
        self.write("docs/use.md", "# Use\n[a](README.md#nothing)\n## In `C++`, 1st\n")
        self.says("docs/use.md:2: README.md#nothing: no such heading")
        self.write("docs/use.md", "# Use\n[a](../../outside.md)\n## In `C++`, 1st\n")
        self.says("../../outside.md leads nowhere")

    def test_the_index_has_every_document(self):
        self.write("docs/tutorials/first.md", "# First\n")
        self.says("docs/README.md: does not link to docs/tutorials/first.md")
        self.write("docs/README.md", "# Docs\n[a](use.md) [b](adr/README.md) [c](tutorials/first.md)\n")
        self.passes()
        self.write("docs/adr/0002-y.md", "# Y\n")
        self.says("does not link to docs/adr/0002-y.md")


if __name__ == "__main__":
    unittest.main()
