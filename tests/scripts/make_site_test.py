import os
import unittest

from script_test import ScriptTest

import check_docs
import make_site

HEADER = """// Plans: what is run. `a_b` and c_d.
//
//   plan.run();
//
// More.
#pragma once

namespace onepass {

// A title that belongs to nothing.

// One launch, x < y * z.
struct Step {
  int level = 0;  // from 0
  struct Memory;  // elsewhere
};

// ---- parts ----
enum class Kind {
#define ROW(name, id) name,
#include "onepass/tables/x.def"
#undef ROW
};
}  // namespace onepass
"""


class MakeSite(ScriptTest):
    def setUp(self):
        super().setUp()
        root, make_site.ROOT = make_site.ROOT, self.root
        self.addCleanup(setattr, make_site, "ROOT", root)
        self.write("include/onepass/plan.h", HEADER)
        self.write("include/onepass/tables/x.def", "// ROW(name, id)\nROW(first, 1)\nROW(second, 2)\n")
        self.write("examples/snippets/graph.cpp", "// [plan.h]\nplan.run();\n// [plan.h]\n")
        self.write("README.md", "# It\n\n![p](docs/x/p.svg) [all](docs/README.md)\n")
        self.write("docs/README.md", "# Docs\n\n[b](b.md) [a](a.md#some-words) [code](../x.cpp)\n")
        self.write("docs/a.md", "# A\n\n## Some words\n\n![p](x/p.svg) [up](README.md)\n\n```sh\n[c](a.md)\n```\n")
        self.write("docs/b.md", "# B of `b`\n")

    def test_header(self):
        text = make_site.doxygen_header("plan.h", check_docs.read(self.root, "include/onepass/plan.h"))
        for part in ("/// \\file\n/// Plans: what is run. `a_b` and c\\_d.\n",
                     "/// \\snippet graph.cpp plan.h\n", "/// More.\n", "\n// A title",
                     "\n/// One launch, x \\< y \\* z.\nstruct Step", "level = 0;  ///< from 0\n",
                     "struct Memory;  // elsewhere", "\n// ---- parts", "{\n  first,\n  second,\n}"):
            self.assertIn(part, text)
        self.assertNotIn("plan.run", text)

    def test_pages(self):
        pages = make_site.prepare(os.path.join(self.root, "out"))
        self.assertEqual(pages, ["README.md", "docs/README.md", "docs/b.md", "docs/a.md"])
        start, a, index = (check_docs.read(self.root, "out/" + name)
                           for name in ("README.md", "docs/a.md", "docs/README.md"))
        self.assertEqual(start, "# It {#mainpage}\n\n![p](p.svg) [all](@ref page_docs_README)\n")
        self.assertEqual(a, "# A {#page_docs_a}\n\n## Some words {#page_docs_a_some_words}\n\n"
                            "![p](p.svg) [up](@ref page_docs_README)\n\n```{.sh}\n[c](a.md)\n```\n")
        self.assertEqual(index, "# Docs {#page_docs_README}\n\n[b](@ref page_docs_b) "
                                "[a](@ref page_docs_a_some_words) code\n")

    def test_a_warning_is_an_error(self):
        for code, status in (("echo warning: x >&2", 1), ("exit 1", 1), ("", 1),
                             ("mkdir -p html; touch html/index.html", 0)):
            program = self.write("doxygen", f"#!/bin/sh\ncat > settings\n{code}\n")
            os.chmod(program, 0o755)
            doxyfile = self.write("Doxyfile", "QUIET = YES\n")
            got, text = self.run_main(make_site.main, [program, doxyfile, os.path.join(self.root, "out")])
            self.assertEqual(got, status, code + text)
        settings = check_docs.read(self.root, "out/settings")
        self.assertTrue(settings.startswith("QUIET = YES\nINPUT =\nINPUT += "), settings)


if __name__ == "__main__":
    unittest.main()
