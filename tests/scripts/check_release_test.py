import os
import shutil
import subprocess
import unittest

from script_test import ROOT, ScriptTest

import check_release

VERSION = "".join(f"#define ONEPASS_VERSION_{part} {n}\n" for part, n in (("MAJOR", 0), ("MINOR", 2), ("PATCH", 1)))


class CheckRelease(ScriptTest):
    def setUp(self):
        super().setUp()
        self.write("include/onepass/version.h", VERSION)
        self.write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n## [0.2.1] - 2026-01-01\n\n## [0.2.0] - 2025-12-01\n")
        self.write("README.md", "# onepass\n\nVersion 0.2.1, new.\n")
        self.write("python/onepass/_library.py", 'SONAME = "libonepass.so.0.2"\n')
        self.write("docs/c-api.md", "find_package(onepass 0.2 REQUIRED)\n")
        self.write("docs/install.md", "find_package(onepass 0.2 REQUIRED)\n")

    def says(self, *parts, files=()):
        status, text = self.run_main(check_release.main, ["--root", self.root, *files])
        self.assertEqual(status, 1, text)
        for part in parts:
            self.assertIn(part, text)
        self.assertEqual(len(text.splitlines()), len(parts), text)

    def test_versions_agree(self):
        status, text = self.run_main(check_release.main, ["--root", self.root])
        self.assertEqual((status, text), (0, "version 0.2.1, 0 files\n"))
        self.assertEqual(self.run_main(check_release.main, ["--root", ROOT])[0], 0)

    def test_every_place_is_looked_at(self):
        self.write("CHANGELOG.md", "## [0.2.0] - 2025-12-01\n")
        self.write("README.md", "Version 0.2.0\n")
        self.write("python/onepass/_library.py", 'SONAME = "libonepass.so.0.1"\n')
        self.write("docs/c-api.md", "find_package(onepass 0.1)\n")
        self.says("CHANGELOG.md: the newest version is 0.2.0", "README.md: 'Version 0.2.0'", "SONAME 0.1",
                  "docs/c-api.md: find_package(onepass 0.1)")

    def build(self, name, source, *flags):
        self.write(name + ".c", source)
        path = os.path.join(self.root, name)
        subprocess.run([compiler, os.path.join(self.root, name + ".c"), "-o", path, *flags], check=True)
        return path

    def test_libraries_of_others(self):
        if not compiler:
            self.skipTest("no C compiler")
        self.build("libother.so", "int other(void) { return 1; }\n", "-shared", "-fPIC")
        source = "int other(void);\nint main(void) { return other(); }\n"
        away = self.build("away", source, "-L" + self.root, "-l:libother.so")
        self.says("needs libother.so, which is neither", files=[away])
        beside = self.build("beside", source, "-L" + self.root, "-l:libother.so", "-Wl,-rpath,$ORIGIN")
        self.assertEqual(self.run_main(check_release.main, ["--root", self.root, beside])[0], 0)
        fixed = self.build("fixed", source, "-L" + self.root, "-l:libother.so", "-Wl,-rpath,/opt/other:$ORIGIN")
        self.says("looks for libraries in /opt/other", files=[fixed])

    def test_symbols_newer_than_debians(self):
        if not compiler:
            self.skipTest("no C compiler")
        program = self.build("program", "int main(void) { return 0; }\n")
        newest = dict(check_release.NEWEST)
        self.addCleanup(check_release.NEWEST.update, newest)
        check_release.NEWEST["GLIBC"] = (2, 1)
        errors = list(check_release.check_file(program))
        self.assertTrue(errors and all("Debian 12 has 2.1" in error for error in errors), errors)


compiler = shutil.which("cc")

if __name__ == "__main__":
    unittest.main()
