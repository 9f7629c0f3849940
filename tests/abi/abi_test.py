"""abi_test.py LIBRARY C_COMPILER SOURCE_DIR [--update | unittest arguments]: the shared library exports
what the C header declares and nothing else, and the interface that the header declares is compatible with
tests/abi/onepass.abi. The interface is read from a library of stubs, one for each declaration.

A compatible addition is recorded with --update. What the comparison calls incompatible needs a new
SONAME."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY, COMPILER, SOURCE_DIR = sys.argv[1:4]
HEADER = os.path.join(SOURCE_DIR, "include", "onepass", "onepass.h")
BASELINE = os.path.join(SOURCE_DIR, "tests", "abi", "onepass.abi")
INCOMPATIBLE = 8  # bit of abidiff's exit status; 4: any change, 1 and 2: it did not work


def declarations():
    """[(name, declaration without its semicolon)]"""
    with open(HEADER, encoding="utf-8") as file:
        found = re.findall(r"^ONEPASS_API ([^;{}]*?\b(onepass_\w+)\([^;{}]*\));", file.read(), re.MULTILINE)
    return [(name, declaration) for declaration, name in found]


def write_abi(path):
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "libonepass.so")
        with open(os.path.join(folder, "stubs.c"), "w", encoding="utf-8") as file:
            file.write('#include "onepass/onepass.h"\n')
            for _, declaration in declarations():
                file.write(f"{declaration} {{ __builtin_trap(); }}\n")
        # From its folder: the names of files are part of what is written.
        include = os.path.abspath(os.path.join(SOURCE_DIR, "include"))
        subprocess.run([COMPILER, "-g", "-fPIC", "-shared", "-I", include, "stubs.c", "-o", library],
                       cwd=folder, check=True)
        subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs",
                        "--no-elf-needed", "--no-architecture", "--out-file", path, library], check=True)


class ExportsTest(unittest.TestCase):
    def test_only_what_the_header_declares(self):
        output = subprocess.run(["nm", "--dynamic", "--defined-only", LIBRARY], check=True,
                                capture_output=True, text=True).stdout
        exported = {line.split()[2] for line in output.splitlines()}
        self.assertEqual(exported, {name for name, _ in declarations()})

    def test_soname_has_a_version(self):
        output = subprocess.run(["readelf", "--dynamic", LIBRARY], check=True, capture_output=True,
                                text=True).stdout
        self.assertRegex(output, r"SONAME.*\[libonepass\.so\.\d+\.\d+\]")


@unittest.skipUnless(shutil.which("abidiff"), "no abidiff: package abigail-tools")
class AbiTest(unittest.TestCase):
    def compare(self, old, new):
        return subprocess.run(["abidiff", old, new], check=False, capture_output=True, text=True)

    def test_is_compatible_with_the_baseline(self):
        with tempfile.TemporaryDirectory() as folder:
            current = os.path.join(folder, "current.abi")
            write_abi(current)
            result = self.compare(BASELINE, current)
            self.assertEqual(result.returncode, 0,
                             f"{result.stdout}{result.stderr}\nCompatible additions: run this test with "
                             "--update and raise ONEPASS_API_VERSION.")

    def test_sees_what_breaks_callers(self):
        with open(BASELINE, encoding="utf-8") as file:
            text = file.read()
        # A baseline with a function that is gone now, and one where a field had another type.
        function = text.replace("onepass_plan_run_async", "onepass_plan_run_later")
        field = re.sub(r"(<var-decl name='arena_bytes' type-id=')[^']*'",
                       lambda m: m.group(1) + re.search(r"<var-decl name='dispatches' type-id='([^']*)'",
                                                        text).group(1) + "'", text)
        for changed in (function, field):
            self.assertNotEqual(changed, text)
            with tempfile.TemporaryDirectory() as folder:
                old = os.path.join(folder, "old.abi")
                with open(old, "w", encoding="utf-8") as file:
                    file.write(changed)
                self.assertNotEqual(self.compare(old, BASELINE).returncode, 0)


if __name__ == "__main__":
    if sys.argv[4:] == ["--update"]:
        write_abi(BASELINE)
    else:
        unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=1)
