#!/usr/bin/env python3
"""check_release.py [--root ROOT] [--program PROGRAM] [FILE...]: fails where a release would not be what it says

- The version of include/onepass/version.h is that of README.md, of find_package in the documents, of the
  Python package's SONAME and of the newest section of CHANGELOG.md, [Unreleased] aside.
- PROGRAM prints that version, and so do its manual pages.
- FILEs, programs and shared libraries, need nothing newer of the C and C++ libraries than Debian 12 has,
  and no other library that does not lie beside them ($ORIGIN in their path)."""

import argparse
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
# What Debian 12 has: glibc 2.36, libstdc++ and libgcc of g++ 12.
NEWEST = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}
SYSTEM = re.compile(r"^(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so\.\d+|ld-linux[\w-]*\.so\.\d+)$")


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def output(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def numbers(text):
    return tuple(int(n) for n in text.split("."))


def version_of(root):
    found = dict(re.findall(r"define ONEPASS_VERSION_(MAJOR|MINOR|PATCH) (\d+)", read(root, "include/onepass/version.h")))
    return ".".join(found[part] for part in ("MAJOR", "MINOR", "PATCH"))


def check_texts(root):
    version = version_of(root)
    short = version.rpartition(".")[0]
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", read(root, "CHANGELOG.md"), re.MULTILINE)
    if released and released[0] != version:
        yield f"CHANGELOG.md: the newest version is {released[0]}, expected {version}"
    told = re.search(r"^Version (\d+\.\d+\.\d+)", read(root, "README.md"), re.MULTILINE)
    if told is None or told[1] != version:
        yield f"README.md: 'Version {told[1] if told else '?'}', expected {version}"
    soname = re.search(r'^SONAME = "libonepass\.so\.(.*)"$', read(root, "python/onepass/_library.py"), re.MULTILINE)
    if soname is None or soname[1] != short:
        yield f"python/onepass/_library.py: SONAME {soname[1] if soname else '?'}, expected {short}"
    for path in ("docs/c-api.md", "docs/install.md"):
        for found in re.findall(r"find_package\(onepass (\d+\.\d+)", read(root, path)):
            if found != short:
                yield f"{path}: find_package(onepass {found}), expected {short}"


def check_program(root, program):
    version = version_of(root)
    printed = output(program, "--version").strip()
    if printed != version:
        yield f"{program} --version: {printed}, expected {version}"
    with tempfile.TemporaryDirectory() as folder:
        output(program, "man", folder)
        pages = sorted(os.listdir(folder))
        if not pages:
            yield f"{program} man: no pages"
        for page in pages:
            head = re.search(r"^\.TH .*$", read(folder, page), re.MULTILINE)
            if head is None or version not in head[0]:
                yield f"{page}: '{head[0] if head else ''}', expected {version}"


def check_file(path):
    for name, found in sorted(set(re.findall(r"\((GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)\)", output("objdump", "-T", path)))):
        if numbers(found) > NEWEST[name]:
            yield f"{path}: needs {name}_{found}, Debian 12 has {'.'.join(map(str, NEWEST[name]))}"
    dynamic = output("readelf", "--dynamic", path)
    runpath = re.search(r"\(R(?:UN)?PATH\).*\[(.*)\]", dynamic)
    own = [p.replace("$ORIGIN", os.path.dirname(path)) for p in runpath[1].split(":")] if runpath else []
    for part in runpath[1].split(":") if runpath else []:
        if not part.startswith("$ORIGIN"):
            yield f"{path}: looks for libraries in {part}, expected $ORIGIN"
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not SYSTEM.match(library) and not any(os.path.exists(os.path.join(p, library)) for p in own):
            yield f"{path}: needs {library}, which is neither of the system nor beside it"


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=ROOT)
    parser.add_argument("--program")
    parser.add_argument("files", nargs="*")
    args = parser.parse_args(argv)
    errors = list(check_texts(args.root))
    if args.program:
        errors += check_program(args.root, args.program)
    for path in args.files:
        errors += check_file(path)
    print("\n".join(errors) if errors else f"version {version_of(args.root)}, {len(args.files)} files")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
