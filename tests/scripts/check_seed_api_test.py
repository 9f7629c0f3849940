import unittest

from script_test import ScriptTest

import check_seed_api

ITEMS = "# two names\nComputeGraph::fuse\nDType (re-export)\n"
HEAD = "| seed | C++ | tests | differs |\n|---|:--|---|---|\n"
FUSE = "| `ComputeGraph::fuse` | `fuse(a \\| b)` | `Fuse.merges`, Fuse.keeps | see Other.note |\n"
DTYPE = "| `DType` | `onepass::DType` | `DTypes.sizes` in dtype_test.cpp | |\n"


def junit(**outcomes):
    marks = {"passed": 'status="run"/>', "failed": 'status="fail"><failure/></testcase>',
             "skipped": 'status="notrun"><skipped/></testcase>'}
    cases = "".join(f'<testcase name="{name.replace("__", "/").replace("_0_", ".")}" {marks[outcome]}'
                    for name, outcome in outcomes.items())
    return f"<testsuite>{cases}</testsuite>"


class CheckSeedApi(ScriptTest):
    def check(self, doc, results=None, items=ITEMS):
        arguments = ["--items", self.write("d/items.txt", items), "--doc", self.write("d/doc.md", doc)]
        if results is not None:
            arguments += ["--junit", self.write("d/junit.xml", results)]
        return self.run_main(check_seed_api.main, arguments)

    def test_complete_document(self):
        status, text = self.check(HEAD + FUSE + DTYPE)
        self.assertEqual(status, 0, text)

    def test_missing_row(self):
        status, text = self.check(HEAD + FUSE)
        self.assertEqual(status, 1)
        self.assertIn("DType (re-export): no row", text)

    def test_name_outside_a_table_is_no_row(self):
        self.assertEqual(self.check(HEAD + FUSE + "\n`DType` `DTypes.sizes`\n")[0], 1)

    def test_row_without_test(self):
        status, text = self.check(HEAD + FUSE + "| `DType` | | dtype_test.cpp | |\n")
        self.assertEqual(status, 1)
        self.assertIn("DType (re-export): the row names no test", text)

    def test_all_named_tests_passed(self):
        status, text = self.check(
            HEAD + FUSE + DTYPE,
            junit(Fuse_0_merges="passed", Fuse_0_keeps="passed", All__DTypes_0_sizes__1="passed"))
        self.assertEqual(status, 0, text)

    def test_named_tests_that_did_not_pass(self):
        status, text = self.check(
            HEAD + FUSE + DTYPE, junit(Fuse_0_merges="failed", Fuse_0_keeps="skipped"))
        self.assertEqual(status, 1)
        self.assertIn("Fuse.merges: failed", text)
        self.assertIn("Fuse.keeps: was skipped", text)
        self.assertIn("DTypes.sizes: no such test ran", text)
        self.assertNotIn("Other.note", text)

    def test_one_failed_instance_is_a_failure(self):
        doc = HEAD + FUSE.replace("Fuse.keeps", "Fuse.merges")
        status, text = self.check(
            doc, junit(A__Fuse_0_merges__0="passed", A__Fuse_0_merges__1="failed"),
            items="ComputeGraph::fuse\n")
        self.assertEqual(status, 1)
        self.assertIn("Fuse.merges: failed", text)

    def test_missing_or_empty_files(self):
        missing = self.run_main(check_seed_api.main, ["--items", self.root + "/none"])
        self.assertEqual(missing[0], 1)
        self.assertEqual(self.check(HEAD + FUSE, items="# nothing\n")[0], 1)
        self.assertEqual(self.check(HEAD + FUSE + DTYPE, results="<testsuite>")[0], 1)


if __name__ == "__main__":
    unittest.main()
