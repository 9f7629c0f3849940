"""install_test.py SOURCE_DIR [unittest arguments]: `pip install .` without a network, with and without
the library in the package."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

LIBRARY = os.environ["ONEPASS_LIBRARY"]
SCRIPT = """
import numpy as np, onepass
device = onepass.Device("cpu", threads=1)
x = device.array(np.ones(8))
recorder = device.record()
recorder.add(x, x, out=x)
recorder.compile().run()
print(onepass.__file__, onepass.library_path(), x.numpy().sum())
"""


class InstallTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def install(self, environment):
        target = os.path.join(self.folder, "site")
        source = os.path.join(self.folder, "source")
        # pip may write into the tree that it builds.
        for name in ("python", "include/onepass"):
            shutil.copytree(os.path.join(support.SOURCE_DIR, name), os.path.join(source, name))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(os.path.join(support.SOURCE_DIR, name), source)
        result = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
             "--disable-pip-version-check", "--target", target, "."],
            cwd=source, env=environment, capture_output=True, text=True)
        if "No module named pip" in result.stderr:
            self.skipTest("no pip")
        self.assertEqual(result.returncode, 0, result.stderr)
        return target

    def run_script(self, target, environment):
        result = subprocess.run([sys.executable, "-c", SCRIPT], cwd=self.folder,
                                env=dict(environment, PYTHONPATH=target), capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        module, library, total = result.stdout.split()
        self.assertTrue(module.startswith(target), module)
        self.assertEqual(total, "16.0")
        return library

    def test_with_the_library_in_the_package(self):
        without = {k: v for k, v in os.environ.items() if k != "ONEPASS_LIBRARY"}
        target = self.install(dict(without, ONEPASS_LIBRARY=LIBRARY))
        self.assertTrue(self.run_script(target, without).startswith(target))

    def test_with_an_installed_library(self):
        without = {k: v for k, v in os.environ.items() if k != "ONEPASS_LIBRARY"}
        target = self.install(without)
        self.assertEqual([n for n in os.listdir(os.path.join(target, "onepass")) if "lib" in n and ".so" in n], [])
        installed = os.path.join(self.folder, "lib")
        os.mkdir(installed)
        shutil.copy(LIBRARY, os.path.join(installed, "libonepass.so.0.1"))
        self.assertEqual(self.run_script(target, dict(without, LD_LIBRARY_PATH=installed)), "libonepass.so.0.1")

    def test_without_a_library_the_import_tells_what_to_do(self):
        without = {k: v for k, v in os.environ.items() if k != "ONEPASS_LIBRARY"}
        target = self.install(without)
        result = subprocess.run([sys.executable, "-c", "import onepass"], cwd=self.folder,
                                env=dict(without, PYTHONPATH=target), capture_output=True, text=True)
        if result.returncode == 0:
            self.skipTest("a libonepass is installed on this system")
        self.assertIn("set ONEPASS_LIBRARY to its path", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
