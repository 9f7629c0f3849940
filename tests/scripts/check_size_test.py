import unittest

from script_test import ScriptTest

import check_size


class CheckSize(ScriptTest):
    def test_limit_is_800_lines(self):
        self.write("src/a.cpp", "int x;\n" * 800)
        self.assertEqual(self.run_main(check_size.main, self.root)[0], 0)
        self.write("scripts/b.py", "x = 1\n" * 801)
        status, text = self.run_main(check_size.main, self.root)
        self.assertEqual(status, 1)
        self.assertIn("scripts/b.py: 801 lines", text)
        self.assertNotIn("src/a.cpp: 800 lines", text)

    def test_only_source_folders_count(self):
        self.write("docs/a.cpp", "int x;\n" * 900)
        self.write("src/data.json", "1\n" * 900)
        self.assertEqual(self.run_main(check_size.main, self.root)[0], 0)

    def test_prints_the_five_largest(self):
        for lines in range(1, 8):
            self.write(f"src/f{lines}.cpp", "int x;\n" * lines)
        text = self.run_main(check_size.main, self.root)[1]
        listed = [line.split()[1] for line in text.splitlines() if line.startswith("  ")]
        self.assertEqual(listed, [f"src/f{lines}.cpp" for lines in (7, 6, 5, 4, 3)])

    def test_comment_share(self):
        self.write("src/a.cpp", "// one\n/* two\n three */\nint x;  // not\n\n/* no */ int y;\n")
        text = self.run_main(check_size.main, self.root)[1]
        self.assertIn("comments: 60.0 % of 5 non-blank", text)


if __name__ == "__main__":
    unittest.main()
