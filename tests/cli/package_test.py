"""package_test.py CPACK BUILD_DIR [unittest arguments]: the archive and the Debian package: built, unpacked,
installed into a folder that plays the root of a system, used there and removed."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SOURCE_DIR = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE_DIR, "scripts", "checks"))

import check_release  # noqa: E402

CPACK, BUILD_DIR = sys.argv[1:3]
SLOW = 280  # seconds until a command counts as stuck


def run(*args, **more):
    result = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=SLOW, check=False, **more)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(args)}: exit {result.returncode}\n{result.stdout[-4000:]}")
    return result.stdout


def files_in(folder):
    return sorted(os.path.relpath(os.path.join(where, name), folder)
                  for where, _, names in os.walk(folder) for name in names)


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("dpkg-deb") or not shutil.which("dpkg"):
            raise unittest.SkipTest("no dpkg")
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        # Fast to make; what is shipped is packed tighter.
        run(CPACK, "-G", "DEB;TGZ", "-B", cls.folder.name, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip",
            "--config", os.path.join(BUILD_DIR, "CPackConfig.cmake"), cwd=cls.folder.name)
        packages = [n for n in os.listdir(cls.folder.name) if n.endswith(".deb")]
        assert len(packages) == 1, packages
        cls.package = os.path.join(cls.folder.name, packages[0])
        [archive] = [n for n in os.listdir(cls.folder.name) if n.endswith(".tar.gz")]
        cls.archive = os.path.join(cls.folder.name, archive)

    def scratch(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def test_says_what_it_is(self):
        control = run("dpkg-deb", "--field", self.package)
        self.assertRegex(control, r"(?m)^Package: onepass$")
        self.assertRegex(control, r"(?m)^Version: \d+\.\d+\.\d+")
        self.assertRegex(control, r"(?m)^Description: \S")
        if shutil.which("dpkg-shlibdeps"):
            depends = re.search(r"(?m)^Depends: (.*)$", control)
            self.assertIsNotNone(depends, control)
            self.assertIn("libc6", depends.group(1))
        self.assertRegex(os.path.basename(self.package), r"^onepass_[0-9.]+_[a-z0-9]+\.deb$")

    def test_files_are_where_they_belong(self):
        root = self.scratch()
        run("dpkg-deb", "-x", self.package, root)
        files = files_in(root)
        for path in ("usr/bin/onepass", "usr/share/onepass/stories-12m-q8_0.gguf",
                     "usr/share/man/man1/onepass.1", "usr/share/man/man1/onepass-generate.1",
                     "usr/share/bash-completion/completions/onepass",
                     "usr/share/fish/vendor_completions.d/onepass.fish",
                     "usr/share/doc/onepass/copyright", "usr/include/onepass/onepass.h"):
            self.assertIn(path, files)
        self.assertEqual([f for f in files if not f.startswith("usr/")], [])
        for path in files:
            mode = os.stat(os.path.join(root, path)).st_mode & 0o777
            self.assertIn(mode, (0o644, 0o755), path)
        # Unpacked anywhere, the program finds its model.
        out = run(os.path.join(root, "usr/bin/onepass"), "generate", "-n", "4", "-p", "Once")
        self.assertRegex(out, r"(?m)^\S+ on \S+ \(")
        self.assertIn(root, run(os.path.join(root, "usr/bin/onepass"), "doctor", "--quick"))

    def test_the_archive_runs_where_it_is_unpacked(self):
        root = self.scratch()
        with tarfile.open(self.archive) as archive:
            archive.extractall(root)
        [name] = os.listdir(root)
        self.assertRegex(name, r"^onepass-\d+\.\d+\.\d+-Linux-[a-z0-9_]+$")
        # Nothing of the machine that built it: no variables, no path.
        out = run(os.path.join(root, name, "bin", "onepass"), "generate", "-n", "4", "-p", "Once", env={})
        self.assertRegex(out, r"(?m)^\S+ on \S+ \(")
        self.assertIn("lib", os.listdir(os.path.join(root, name)))

    def test_needs_only_what_the_system_has(self):
        root = self.scratch()
        run("dpkg-deb", "-x", self.package, root)
        binaries = [os.path.join(root, f) for f in files_in(root)
                    if f == "usr/bin/onepass" or re.search(r"libonepass\.so[.\d]*$", f)]
        self.assertGreaterEqual(len(binaries), 2)
        status = check_release.main(["--program", os.path.join(root, "usr/bin/onepass"), *binaries])
        self.assertEqual(status, 0)
        depends = re.search(r"(?m)^Depends: (.*)$", run("dpkg-deb", "--field", self.package))
        if depends:
            packages = {word.split()[0] for word in depends.group(1).split(", ")}
            self.assertEqual(packages - {"libc6", "libgcc-s1", "libstdc++6"}, set())

    def test_installs_and_goes_without_a_trace(self):
        root = self.scratch()
        info = os.path.join(root, "var", "lib", "dpkg")
        for name in ("info", "updates", "triggers"):
            os.makedirs(os.path.join(info, name))
        for name in ("status", "available"):
            with open(os.path.join(info, name), "w", encoding="utf-8"):
                pass
        # The root has no other package, and whoever runs this need not be root.
        dpkg = ["dpkg", "--root=" + root, "--log=" + os.path.join(root, "var", "log"),
                "--force-not-root", "--force-depends", "--force-bad-path",
                "--force-script-chrootless"]
        run(*dpkg, "--install", self.package)
        self.assertRegex(run(*dpkg, "--status", "onepass"), r"(?m)^Status: install ok installed$")
        program = os.path.join(root, "usr/bin/onepass")
        self.assertRegex(run(program, "--version"), r"^\d+\.\d+\.\d+\n$")
        run(*dpkg, "--purge", "onepass")
        self.assertFalse(os.path.exists(os.path.join(root, "usr")), files_in(root))
        with open(os.path.join(info, "status"), encoding="utf-8") as status:
            self.assertEqual(status.read().strip(), "")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
