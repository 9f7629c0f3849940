#!/usr/bin/env python3
"""count_change.py [--build] [NAME...]: how many files a typical change touches

The changes of tests/changes/changes.toml, or those named, are applied to a copy of the tree in
build/changes, one on top of the other. A change fails where it does not apply any more and where it
touches more files than it may. With --build what their rows or documents say is then built there,
without optimization, and run; a change alone is one that is named alone.

A change is a patch, or a document with code blocks:

    ```cpp file=PATH                       a new file
    ```cpp file=PATH after="some text"     lines added behind the first line that holds the text
    ```sh run                              with --build: commands, without a shell

Documents it touches do not count, nor do the files that its row names as `beside`."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatchcase

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
CHANGES = os.path.join("tests", "changes")
COPIED = ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "cmake", "src", "include",
          "tests", "scripts", "tools", "examples", "benches", "docs")
NEVER_COUNTED = ("docs/*", "*.md")
KEYS = {"what", "from", "files", "beside", "models", "build", "test"}
COMMANDS = re.compile(r"^```sh run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r'^```\w+ file=(\S+)(?: after="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class ChangeError(Exception):
    pass


def run(command, folder):
    # The copy is no part of the repository around it.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": os.path.dirname(folder)}
    result = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, check=False, env=environment)
    if result.returncode != 0:
        raise ChangeError(f"{' '.join(command)} failed:\n{result.stdout[-6000:]}")
    return result.stdout


def copy_tree(root, folder):
    def ignore(_, names):
        return [n for n in names if n in ("build", "__pycache__")]

    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name in COPIED:
        source, target = os.path.join(root, name), os.path.join(folder, name)
        if os.path.isdir(source):
            shutil.copytree(source, target, ignore=ignore)
        elif os.path.isfile(source):
            shutil.copy2(source, target)


def apply_block(folder, path, after, body):
    target = os.path.normpath(os.path.join(folder, path))
    if not target.startswith(os.path.normpath(folder) + os.sep):
        raise ChangeError(f"{path}: outside the repository")
    if not after:
        if os.path.exists(target):
            raise ChangeError(f"{path}: exists already")
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
        raise ChangeError(f"{path}: no line holds '{after}'")
    with open(target, "w", encoding="utf-8") as file:
        file.writelines(lines)


def apply_document(folder, path):
    with open(path, encoding="utf-8") as file:
        blocks = BLOCK.findall(file.read())
    if not blocks:
        raise ChangeError(f"{path}: no code block names a file")
    for block in blocks:
        apply_block(folder, *block)
    return {path for path, _, _ in blocks}


def apply_patch(folder, path):
    # Lines around a change may have moved or changed.
    command = ["git", "apply", "-C1", path]
    run(command, folder)
    return {line.split("\t")[2] for line in run(command + ["--numstat"], folder).splitlines()}


def count_change(root, folder, name, row):
    """Applies a change. What its files are counted as, and whether they are too many."""
    if unknown := sorted(row.keys() - KEYS):
        raise ChangeError(f"{name}: unknown {', '.join(unknown)}")
    path = os.path.join(root, CHANGES, row["from"])
    touched = (apply_patch if path.endswith(".patch") else apply_document)(folder, path)
    beside = [*NEVER_COUNTED, *row.get("beside", [])]
    counted = sorted(f for f in touched if not any(fnmatchcase(f, b) for b in beside))
    print(f"{name}: {row['what']}: {len(counted)} of {row['files']} files", *counted, sep="\n  ")
    for file in sorted(touched - set(counted)):
        print(f"  and {file}")
    return len(counted) <= row["files"]


def commands_of(root, row):
    """What builds and tests a change: lists of words."""
    path = os.path.join(root, CHANGES, row["from"])
    if path.endswith(".patch"):
        return [["cmake", "--build", "--preset", "dev", "--target", *row["build"]],
                *(["build/dev/bin/" + test.split()[0], *test.split()[1:]] for test in row["test"])]
    with open(path, encoding="utf-8") as file:
        commands = [shlex.split(line) for text in COMMANDS.findall(file.read())
                    for line in text.splitlines()]
    if not commands:
        raise ChangeError(f"{path}: no code block says what to run")
    return commands


def build_and_test(root, folder, rows):
    run([sys.executable, "scripts/checks/check_layers.py"], folder)
    models = "ON" if any(row.get("models") for row in rows) else "OFF"
    run(["cmake", "--preset", "dev", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DCMAKE_UNITY_BUILD=ON",
         "-DCMAKE_UNITY_BUILD_BATCH_SIZE=8", f"-DONEPASS_BUILD_MODELS={models}",
         "-DONEPASS_BUILD_BENCHES=OFF", "-DONEPASS_BUILD_CLI=OFF",
         "-DONEPASS_BUILD_EXAMPLES=OFF"], folder)
    for row in rows:
        for command in commands_of(root, row):
            print(f"== {' '.join(command)}\n{run(command, folder)[-2000:]}")


def main(argv, root=ROOT):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", action="store_true", help="build the changed tree, run the tests")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args(argv)
    root = os.path.abspath(root)
    folder = os.path.join(root, "build", "changes")
    try:
        with open(os.path.join(root, CHANGES, "changes.toml"), "rb") as file:
            table = tomllib.load(file)
        if unknown := sorted(set(args.names) - set(table)):
            raise ChangeError(f"no change is named {', '.join(unknown)}")
        rows = {name: row for name, row in table.items() if not args.names or name in args.names}
        copy_tree(root, folder)
        fits = [count_change(root, folder, name, row) for name, row in rows.items()]
        if not all(fits):
            raise ChangeError("a change touches more files than it may")
        if args.build:
            build_and_test(root, folder, rows.values())
    except (ChangeError, OSError, KeyError, tomllib.TOMLDecodeError) as error:
        print(f"count_change: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
