#!/usr/bin/env python3
"""try_doc.py FOLDER DOC:FILES:TARGET...: does what worked examples say

Copies the repository to FOLDER and applies the code blocks of each example there, in order:

    ```cpp file=PATH                       a new file
    ```cpp file=PATH after="some text"     lines added behind the first line that holds the text

An example may touch at most FILES files, tests and build lists included. After each its TARGET is
built, without optimization and without the code for model files, and run. The examples are applied
on top of each other, so that each builds only what it changes."""

import argparse
import os
import re
import shutil
import subprocess
import sys

BLOCK = re.compile(r'^```\w+ file=(\S+)(?: after="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class DocError(Exception):
    pass


def blocks_of(text):
    return [(path, after, body) for path, after, body in BLOCK.findall(text)]


def apply_block(folder, path, after, body):
    target = os.path.normpath(os.path.join(folder, path))
    if not target.startswith(os.path.normpath(folder) + os.sep):
        raise DocError(f"{path}: outside the repository")
    if not after:
        if os.path.exists(target):
            raise DocError(f"{path}: exists already")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(body)
        return
    with open(target, encoding="utf-8") as file:
        lines = file.readlines()
    for i, line in enumerate(lines):
        if after in line:
            lines.insert(i + 1, body)
            break
    else:
        raise DocError(f"{path}: no line holds '{after}'")
    with open(target, "w", encoding="utf-8") as file:
        file.writelines(lines)


def copy_repository(root, folder):
    def ignore(_, names):
        return [n for n in names if n in (".git", "build", "__pycache__") or n.startswith("build-")]

    for name in ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md"):
        os.makedirs(folder, exist_ok=True)
        shutil.copy2(os.path.join(root, name), folder)
    for name in ("cmake", "src", "include", "tests", "scripts", "tools", "examples", "benches", "docs"):
        shutil.copytree(os.path.join(root, name), os.path.join(folder, name), ignore=ignore,
                        dirs_exist_ok=True)


def run(command, folder):
    result = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, check=False)
    if result.returncode != 0:
        raise DocError(f"{' '.join(command)} failed:\n{result.stdout[-6000:]}")
    return result.stdout


def try_example(folder, doc, max_files, target):
    with open(doc, encoding="utf-8") as file:
        blocks = blocks_of(file.read())
    if not blocks:
        raise DocError(f"{doc}: no code block names a file")
    for path, after, body in blocks:
        apply_block(folder, path, after, body)
    touched = sorted({path for path, _, _ in blocks})
    print(f"{doc}: {len(touched)} files:", *touched, sep="\n  ")
    if len(touched) > max_files:
        raise DocError(f"{len(touched)} files touched, at most {max_files}")
    run([sys.executable, "scripts/checks/check_layers.py"], folder)
    run(["cmake", "--preset", "dev", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DONEPASS_PCH=ON",
         "-DONEPASS_BUILD_MODELS=OFF", "-DONEPASS_BUILD_BENCHES=OFF", "-DONEPASS_BUILD_CLI=OFF",
         "-DONEPASS_BUILD_EXAMPLES=OFF"], folder)
    run(["cmake", "--build", "--preset", "dev", "--target", target], folder)
    print(run([os.path.join("build", "dev", "bin", target)], folder))


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("examples", nargs="+", metavar="DOC:FILES:TARGET")
    args = parser.parse_args(argv)
    root = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    try:
        shutil.rmtree(args.folder, ignore_errors=True)
        copy_repository(root, args.folder)
        for example in args.examples:
            doc, max_files, target = example.rsplit(":", 2)
            try_example(args.folder, doc, int(max_files), target)
    except (DocError, OSError, ValueError) as error:
        print(f"try_doc: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
