import os
import unittest

from script_test import ScriptTest

import count_change

TABLE = """
[row]
what = "a row"
from = "row.patch"
files = 1
build = ["t"]
test = ["t"]

[file]
what = "a file"
from = "../../docs/file.md"
files = 1
beside = ["tests/*"]
build = ["t"]
test = ["t"]
"""
PATCH = """diff --git a/src/list.def b/src/list.def
--- a/src/list.def
+++ b/src/list.def
@@ -1,2 +1,3 @@
 ROW(a)
+ROW(b)
 ROW(c)
diff --git a/docs/list.md b/docs/list.md
new file mode 100644
--- /dev/null
+++ b/docs/list.md
@@ -0,0 +1 @@
+a b c
"""
DOCUMENT = """# A file
```cpp file=src/new.cpp
int x;
```
```cpp file=src/list.def after="ROW(b)"
ROW(bb)
```
```cpp file=tests/new_test.cpp
int y;
```
"""


class CountChange(ScriptTest):
    def setUp(self):
        super().setUp()
        self.write("src/list.def", "ROW(a)\nROW(c)\n")
        self.write("tests/changes/changes.toml", TABLE)
        self.write("tests/changes/row.patch", PATCH)
        self.write("docs/file.md", DOCUMENT)

    def count(self, *names):
        return self.run_main(count_change.main, list(names), self.root)

    def changed(self, path):
        with open(os.path.join(self.root, "build/changes", path), encoding="utf-8") as file:
            return file.read()

    def says(self, text, *names):
        status, said = self.count(*names)
        self.assertEqual(status, 1, said)
        self.assertIn(text, said)

    def test_a_patch_in_its_limit(self):
        status, text = self.count("row")
        self.assertEqual(status, 0, text)
        self.assertIn("row: a row: 1 of 1 files\n  src/list.def\n  and docs/list.md\n", text)
        self.assertEqual(self.changed("src/list.def"), "ROW(a)\nROW(b)\nROW(c)\n")

    def test_one_file_too_many(self):
        self.says("file: a file: 2 of 1 files\n  src/list.def\n  src/new.cpp\n"
                  "  and tests/new_test.cpp\n")
        self.says("a change touches more files than it may")

    def test_changes_stand_on_top_of_each_other(self):
        self.write("tests/changes/changes.toml", TABLE.replace("files = 1\nbeside", "files = 2\nbeside"))
        status, text = self.count()
        self.assertEqual(status, 0, text)
        self.assertEqual(self.changed("src/list.def"), "ROW(a)\nROW(b)\nROW(bb)\nROW(c)\n")
        self.says("src/list.def: no line holds 'ROW(b)'", "file")

    def test_a_patch_that_does_not_apply(self):
        self.write("src/list.def", "ROW(a)\nROW(z)\n")
        self.says("patch does not apply", "row")

    def test_a_document_may_not_replace_files(self):
        self.write("src/new.cpp", "int z;\n")
        self.says("src/new.cpp: exists already")

    def test_what_is_run(self):
        self.assertEqual(count_change.commands_of(self.root, {"from": "row.patch", "build": ["t"],
                                                              "test": ["t --filter b"]}),
                         [["cmake", "--build", "--preset", "dev", "--target", "t"],
                          ["build/dev/bin/t", "--filter", "b"]])
        document = {"from": "../../docs/file.md"}
        with self.assertRaisesRegex(count_change.ChangeError, "no code block says what to run"):
            count_change.commands_of(self.root, document)
        self.write("docs/file.md", DOCUMENT + "```sh run\na 'b c'\n```\n```sh run\nd\n```\n")
        self.assertEqual(count_change.commands_of(self.root, document), [["a", "b c"], ["d"]])

    def test_what_the_table_does_not_know(self):
        self.says("no change is named op", "op")
        self.write("tests/changes/changes.toml", TABLE.replace("beside", "besides"))
        self.says("file: unknown besides", "file")


if __name__ == "__main__":
    unittest.main()
