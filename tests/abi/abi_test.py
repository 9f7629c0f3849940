"""abi_test.py LIBRARY ABI_LIBRARY SOURCE_DIR [--update | unittest arguments]: the shared library exports
what the C header declares and nothing else, and its interface is compatible with tests/abi/onepass.abi.
ABI_LIBRARY has the same interface and debug information of nothing else.

A compatible addition is recorded with --update. What the comparison calls incompatible needs a new
SONAME."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY, ABI_LIBRARY, SOURCE_DIR = sys.argv[1:4]
HEADER = os.path.join(SOURCE_DIR, "include", "onepass", "onepass.h")
BASELINE = os.path.join(SOURCE_DIR, "tests", "abi", "onepass.abi")
INCOMPATIBLE = 8  # bit of abidiff's exit status; 4: any change, 1 and 2: it did not work


def declared():
    with open(HEADER, encoding="utf-8") as file:
        return set(re.findall(r"ONEPASS_API [^(;]*?(onepass_\w+)\(", file.read()))


def write_abi(library, path):
    subprocess.run(["abidw", "--header-file", HEADER, "--drop-private-types", "--no-corpus-path",
                    "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed", "--out-file", path, library],
                   check=True)


class ExportsTest(unittest.TestCase):
    def test_only_what_the_header_declares(self):
        for library in (LIBRARY, ABI_LIBRARY):
            output = subprocess.run(["nm", "--dynamic", "--defined-only", library], check=True,
                                    capture_output=True, text=True).stdout
            exported = {line.split()[2] for line in output.splitlines()}
            self.assertEqual(exported, declared(), library)

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
            write_abi(ABI_LIBRARY, current)
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
        write_abi(ABI_LIBRARY, BASELINE)
    else:
        unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=1)
