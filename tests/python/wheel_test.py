"""wheel_test.py SOURCE_DIR [unittest arguments]: the wheel, in a virtual environment with nothing but NumPy.

The wheel is made with the library that is built already (ONEPASS_LIBRARY); with ONEPASS_WHEEL_BUILDS=1 it is
made as `pip install .` makes it, which compiles the library. scikit-build-core is taken from this interpreter,
or from the package index once for a build folder."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile

import support
import numpy

LIBRARY = os.environ["ONEPASS_LIBRARY"]
PROGRAM = os.environ.get("ONEPASS_PROGRAM")
BUILD_DIR = os.environ["ONEPASS_BUILD_DIR"]
# Of every Linux of the GNU kind; anything else has to be in the wheel.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libstdc++.so.6", "libgcc_s.so.1",
          "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
SCRIPT = """
import sys, onepass
model = onepass.Model(sys.argv[1], onepass.Device("cpu"))
print(onepass.library_path(), file=sys.stderr)
print(model.generate(sys.argv[2]).text)
"""


def run(*command, **options):
    return subprocess.run(command, check=False, capture_output=True, text=True, **options)


def builder():
    """An interpreter with pip and scikit-build-core."""
    if run(sys.executable, "-c", "import pip, scikit_build_core").returncode == 0:
        return sys.executable
    folder = os.path.join(BUILD_DIR, "wheel_builder")
    python = os.path.join(folder, "bin", "python")
    if run(python, "-c", "import scikit_build_core").returncode != 0 if os.path.exists(python) else True:
        venv.create(folder, with_pip=True)
        made = run(python, "-m", "pip", "install", "--quiet", "scikit-build-core")
        if made.returncode != 0:
            print("SKIPPED: no scikit-build-core:", made.stderr[-400:])
            sys.exit(77)
    return python


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(made.cleanup)
        cls.folder = made.name
        cls.clean = {k: v for k, v in os.environ.items() if not k.startswith(("ONEPASS_", "PYTHON"))}
        python = builder()
        options = [] if os.environ.get("ONEPASS_WHEEL_BUILDS") else ["-C", f"cmake.define.ONEPASS_PREBUILT={LIBRARY}"]
        result = run(python, "-m", "pip", "wheel", "--no-build-isolation", "--no-index", "--no-deps", "--wheel-dir",
                     cls.folder, *options, support.SOURCE_DIR, env=cls.clean)
        assert result.returncode == 0, result.stdout + result.stderr
        [cls.wheel] = [name for name in os.listdir(cls.folder) if name.endswith(".whl")]
        home = os.path.join(cls.folder, "venv")
        venv.create(home, symlinks=True)
        cls.python = os.path.join(home, "bin", "python")
        result = run(python, "-m", "pip", "--python", cls.python, "install", "--no-index", "--no-deps",
                     os.path.join(cls.folder, cls.wheel), env=cls.clean)
        assert result.returncode == 0, result.stdout + result.stderr
        cls.site = run(cls.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
        # NumPy from here: its own wheel is 18 MB.
        around = os.path.dirname(os.path.dirname(numpy.__file__))
        for name in ("numpy", "numpy.libs"):
            if os.path.exists(os.path.join(around, name)):
                os.symlink(os.path.join(around, name), os.path.join(cls.site, name))

    def generate(self):
        return run(self.python, "-c", SCRIPT, support.STORIES, "Tom had a red ball.", env=self.clean, cwd=self.folder)

    def test_name_and_contents(self):
        with open(os.path.join(support.SOURCE_DIR, "include", "onepass", "version.h"), encoding="utf-8") as file:
            version = ".".join(re.findall(r"VERSION_[A-Z]+ (\d+)", file.read()))
        machine = os.uname().machine
        self.assertEqual(self.wheel, f"onepass-{version}-py3-none-linux_{machine}.whl")
        with zipfile.ZipFile(os.path.join(self.folder, self.wheel)) as wheel:
            names = {name for name in wheel.namelist() if ".dist-info/" not in name}
            metadata = wheel.read(f"onepass-{version}.dist-info/METADATA").decode()
        package = {f"onepass/{name}" for name in os.listdir(os.path.join(support.PYTHON_DIR, "onepass"))
                   if name != "__pycache__"}
        self.assertEqual(names, package | {"onepass/libonepass.so"})
        self.assertIn("Requires-Dist: numpy", metadata)

    def test_the_library_needs_nothing_else(self):
        output = run("readelf", "--dynamic", os.path.join(self.site, "onepass", "libonepass.so")).stdout
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", output))
        self.assertIn("libc.so.6", needed)
        self.assertEqual(needed - SYSTEM, set())

    def test_an_empty_environment_tells_what_the_tool_tells(self):
        result = self.generate()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.strip(), os.path.join(self.site, "onepass", "libonepass.so"))
        if PROGRAM:
            told = run(PROGRAM, "generate", "-q", "--device", "cpu", "-m", support.STORIES, "-p", "Tom had a red ball.")
            self.assertEqual(result.stdout, told.stdout)
        self.assertGreater(len(result.stdout), 200)

    def test_without_the_library_the_import_tells_what_to_do(self):
        library = os.path.join(self.site, "onepass", "libonepass.so")
        os.rename(library, library + ".away")
        try:
            result = self.generate()
        finally:
            os.rename(library + ".away", library)
        if result.returncode == 0:
            self.skipTest("a libonepass is installed on this system")
        self.assertIn("ONEPASS_LIBRARY names another", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
