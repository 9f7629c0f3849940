#!/usr/bin/env python3
"""check_size.py [ROOT]: fails if a source file is longer than 800 lines; prints the five largest
files and the share of comment lines among non-blank lines."""

import os
import sys

from sources import repository_files

MAX_LINES = 800
FOLDERS = ("src", "include", "tools", "tests", "benches", "examples", "scripts")
C_LIKE = (".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".comp", ".glsl", ".def")
HASH_LIKE = (".py", ".sh", ".cmake")


def comment_lines(lines, c_like):
    """Number of lines that hold nothing but a comment."""
    count = 0
    in_block = False
    for line in lines:
        text = line.strip()
        if not c_like:
            count += text.startswith("#")
        elif in_block:
            count += 1
            in_block = "*/" not in text
        elif text.startswith("/*"):
            end = text.find("*/")
            in_block = end < 0
            count += in_block or end == len(text) - 2
        else:
            count += text.startswith("//")
    return count


def measure(root):
    """Returns [(lines, path)], comment lines and non-blank lines of C++-like files."""
    sizes, comments, non_blank = [], 0, 0
    for path in repository_files(root, C_LIKE + HASH_LIKE, FOLDERS):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            lines = file.read().splitlines()
        sizes.append((len(lines), path))
        if path.endswith(C_LIKE):
            comments += comment_lines(lines, True)
            non_blank += sum(1 for line in lines if line.strip())
    return sizes, comments, non_blank


def main(root):
    sizes, comments, non_blank = measure(root)
    sizes.sort(key=lambda item: (-item[0], item[1]))
    print(f"{len(sizes)} files, {sum(size for size, _ in sizes)} lines; the largest:")
    for size, path in sizes[:5]:
        print(f"  {size:5} {path}")
    if non_blank:
        print(f"comments: {100 * comments / non_blank:.1f} % of {non_blank} non-blank C++ lines")
    too_long = [(size, path) for size, path in sizes if size > MAX_LINES]
    for size, path in too_long:
        print(f"{path}: {size} lines, at most {MAX_LINES} are allowed", file=sys.stderr)
    return 1 if too_long else 0


if __name__ == "__main__":
    default_root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else default_root))
