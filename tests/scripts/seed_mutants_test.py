import os
import shutil
import subprocess
import unittest

from script_test import ScriptTest

import check_seed_api
import mutate_headers
import seed_mutants

LIBRARY = """
#pragma once
namespace onepass {
struct Options {
  bool serial = false;
  int depth = 2, width = 5;
};
class Counter {
 public:
  int total(int plus = 1) const;
  int total(int plus, int more) const;
  static int twice(int n);
  int start = 40;
};
}  // namespace onepass
"""
WRAPPERS = """
#pragma once
#include "onepass/library.h"
namespace onepass::compat {
struct Arg {
  Arg(const Options& o) : depth(o.depth) {}
  int depth;
};
inline int total() { return Counter().total(); }
inline void store(int& to) { to = 7; }
constexpr int fixed(int n) { return n + 1; }
}  // namespace onepass::compat
"""
CODE = """
#include "onepass/library.h"
namespace onepass {
int Counter::total(int plus) const { return start + plus; }
int Counter::total(int plus, int more) const { return start + plus + more; }
int Counter::twice(int n) { return 2 * n; }
}
"""
PROGRAM = """
#include <cstdio>
#include "onepass/compat/wrappers.h"
using namespace onepass;
static_assert(compat::fixed(1) == 2);
int main() {
  int stored = 1;
  compat::store(stored);
  Options o{.serial = true, .depth = 3};
  o.width = 6;
  std::printf("%d %d %d %d %d %d %d %d %d %d\\n", compat::total(), stored, compat::fixed(stored),
              compat::Arg(o).depth, Counter().total(2), Counter().total(1, 2), Counter::twice(4),
              int(o.serial), int(o.depth), int(o.width));
}
"""
DOC = """
| name | C++ form | deliberately different | test |
|---|---|---|---|
| total | `compat::total()`, `Counter::{total, twice()}` | – | A.total |
| store | `compat::store(to)`; `fixed`, `compat::Arg` | – | A.store |
| options | `Options::serial`, `Options::depth = 3`, `width` | – | A.options |
| empty | `Counter::start` | *Nominal*: nothing | A.empty |
"""


class Mutants(ScriptTest):
    def setUp(self):
        super().setUp()
        self.write("include/onepass/library.h", LIBRARY)
        self.write("include/onepass/compat/wrappers.h", WRAPPERS)
        self.rows = list(check_seed_api.read_rows(DOC))

    def plan(self):
        return mutate_headers.plan(self.root, self.rows)

    def test_what_the_rows_name_and_what_they_miss(self):
        mutants, problems = self.plan()
        self.assertEqual(problems, [])
        self.assertEqual(
            [m.name for m in mutants],
            ["compat::total()", "Counter::total(int plus)", "Counter::total(int plus, int more)",
             "Counter::twice(int n)", "compat::store(int& to)", "compat::fixed(int n)",
             "compat::Arg::Arg(const Options& o)", "Options::serial", "Options::depth = 3",
             "Options::width"])
        self.assertEqual(mutants[0].rows, [self.rows[0]])
        self.rows = list(check_seed_api.read_rows(DOC.replace("`fixed`", "`Options::none`")))
        self.assertEqual(self.plan()[1], ["Options::none: no public header has it",
                                          "compat::fixed(int n): no row names it"])

    @unittest.skipUnless(shutil.which("g++"), "needs g++")
    def test_each_mutant_empties_its_own(self):
        mutants = self.plan()[0]
        self.write("code.cpp", CODE)
        self.write("program.cpp", PROGRAM)

        def run(*command):
            subprocess.run(command, cwd=self.root, check=True)
        run("g++", "-std=c++20", "-Iinclude", "-c", "code.cpp")
        run("ar", "rc", "code.a", "code.o")
        archive = os.path.join(self.root, "code.a")
        mutate_headers.write(mutants, self.root, os.path.join(self.root, "mutants"), archive)
        run("g++", "-std=c++20", "-Imutants", "-include", "onepass_mutation.h", "program.cpp",
            "code.a", "-o", "program")

        def output(number):
            return subprocess.run([os.path.join(self.root, "program")], text=True, check=True,
                                  env={"ONEPASS_MUTANT": str(number)}, capture_output=True).stdout
        self.assertEqual(output(0).split(), "41 7 8 3 42 43 8 1 3 6".split())
        changed = {1: {0: "0"}, 2: {0: "0", 4: "0"}, 3: {5: "0"}, 4: {6: "0"},
                   5: {1: "1", 2: "2"}, 6: {2: "0"}, 7: {3: "2"}, 8: {7: "0"},
                   9: {3: "2", 8: "2"}, 10: {9: "5"}}
        self.assertEqual(set(changed), {m.number for m in mutants})
        for number, values in changed.items():
            expected = "41 7 8 3 42 43 8 1 3 6".split()
            for place, value in values.items():
                expected[place] = value
            self.assertEqual(output(number).split(), expected, mutants[number - 1].name)

    def program(self, body):
        path = self.write("bin/tests", "#!/bin/sh\n" + body)
        os.chmod(path, 0o755)
        return path

    def test_a_mutant_is_killed_by_failure_crash_or_hanging(self):
        program = self.program("""
echo "[ RUN      ] A.total"
case $ONEPASS_MUTANT in
  1) echo "[  FAILED  ] A.total (0 ms)"; exit 1 ;;
  2) kill -SEGV $$ ;;
  3) exec sleep 60 ;;
esac
echo "[       OK ] A.total (0 ms)"
""")
        mutants = self.plan()[0]
        lines = []
        survivors = seed_mutants.run(program, mutants, limit_s=1, report=lines.append)
        self.assertEqual(survivors, [m.name for m in mutants[3:]])
        self.assertIn("killed   compat::total()  <- total: A.total", lines[0])
        self.assertIn("SIGSEGV", lines[1])
        self.assertIn("did not end", lines[2])
        self.assertIn("survived", lines[3])

    def test_tests_must_pass_without_a_mutant(self):
        program = self.program('echo "[ RUN      ] A.total"\n')
        self.assertEqual(seed_mutants.check_unmutated(program, ["A.total", "B.elsewhere"]), [])
        failing = self.program('echo "[ RUN      ] A.total"\necho "[  FAILED  ] A.total"\nexit 1\n')
        self.assertEqual(seed_mutants.check_unmutated(failing, ["A.total"]),
                         ["without a mutant: A.total"])

    def test_instances_of_parameterized_tests_are_run(self):
        self.assertEqual(seed_mutants.test_filter(["A.b", "C.d"]), "A.b:*/A.b/*:C.d:*/C.d/*")


if __name__ == "__main__":
    unittest.main()
