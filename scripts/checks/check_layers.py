#!/usr/bin/env python3
"""check_layers.py [ROOT]: checks the direction of #include between the layers

    {tools, capi} -> run -> model -> text -> io -> core
                                ops host code -> graph -> core -> leaves

Models use ops through the public headers. Kernel files never see the graph, backends never see ops except the kernel lists that their
kernel_table files collect, and public headers include only each other."""

import os
import re
import sys
from fnmatch import fnmatchcase

from sources import repository_files

FOLDERS = ("include", "src", "tools", "examples")
SUFFIXES = (".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".comp", ".glsl", ".def")

# First match wins. `*` matches any characters, slashes included.
LAYERS = (
    ("include/onepass/*", "public"),
    ("src/ops/shared/*", "leaf"),
    ("src/ops/*/params.h", "leaf"),
    ("src/ops/*/fusions.h", "leaf"),
    ("src/backends/*/args.h", "leaf"),
    ("src/quant/*.h", "leaf"),
    ("src/quant/*.glsl", "leaf"),
    ("src/quant/*", "quant"),
    ("src/ops/*/kernels.h", "kernel_list"),
    ("src/ops/*/cpu*", "kernel"),
    ("src/ops/*/cuda*", "kernel"),
    ("src/ops/*/vulkan*", "kernel"),
    ("src/ops/*/metal*", "kernel"),
    ("src/ops/*/launch*", "launch"),
    ("src/ops/launch*", "ops_common"),
    ("src/ops/cpu.h", "ops_common"),
    ("src/ops/kernel_row.h", "ops_common"),
    ("src/ops/vulkan_row.h", "ops_common"),
    ("src/ops/*", "ops"),
    ("src/core/*", "core"),
    ("src/graph/*", "graph"),
    ("src/backends/*/kernel_table*", "kernel_table"),
    ("src/backends/*", "backend"),
    ("src/io/*", "io"),
    ("src/text/*", "text"),
    ("src/model/*", "model"),
    ("src/run/*", "run"),
    ("src/capi/*", "capi"),
    ("tools/*", "tools"),
    ("examples/*", "examples"),
)

BASE = {"public", "leaf", "core"}
ALLOWED = {
    "public": {"public"},
    "leaf": {"public", "leaf"},
    "core": BASE,
    "quant": BASE | {"quant"},
    "graph": BASE | {"graph"},
    "kernel": BASE | {"quant", "kernel", "kernel_list", "launch", "ops_common"},
    "launch": BASE | {"quant", "launch", "kernel_list", "ops_common"},
    "ops_common": BASE | {"quant", "ops_common"},
    "kernel_list": BASE,
    "ops": BASE | {"quant", "graph", "ops", "kernel_list", "launch", "ops_common"},
    "io": BASE | {"io"},
    "text": BASE | {"io", "text"},
    "model": BASE | {"io", "text", "model"},
    "run": BASE | {"io", "text", "model", "run"},
    "capi": BASE | {"text", "model", "run", "capi"},
    "tools": BASE | {"io", "text", "model", "run", "tools"},
    "backend": BASE | {"quant", "backend"},
    "kernel_table": BASE | {"quant", "backend", "kernel_table", "kernel_list"},
    "examples": {"public", "examples"},
}

# Layers whose files see their own folder's kind but not a neighbour's: one op family's kernels and
# one backend stay apart from the others.
OWN_FOLDER_ONLY = {("kernel", "kernel"), ("kernel", "kernel_list"), ("kernel", "launch"),
                   ("launch", "launch"), ("launch", "kernel_list"), ("ops", "launch"), ("ops", "kernel_list"),
                   ("backend", "backend"), ("kernel_table", "backend"),
                   ("kernel_table", "kernel_table")}

# (including file, included file): the list of compiled-in backends has to name them, and a backend
# on the host stands on the CPU's memory and kernels.
EXCEPTIONS = (
    ("src/core/backend_list.cpp", "src/backends/*.h"),
    ("src/backends/*", "src/backends/cpu/cpu.h"),
)

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
OWN_PREFIXES = ("core/", "graph/", "ops/", "quant/", "backends/", "io/", "text/", "model/", "run/", "capi/",
                "onepass/")


def layer_of(path):
    for pattern, layer in LAYERS:
        if fnmatchcase(path, pattern):
            return layer
    return None


def resolve(root, path, bracket, name):
    """Repository path of an included file, None if it is not ours."""
    folders = ["include", "src"]
    if bracket == '"':
        folders.insert(0, os.path.dirname(path))
    for folder in folders:
        candidate = os.path.normpath(os.path.join(folder, name)).replace(os.sep, "/")
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return None


def is_allowed(path, target):
    layer, target_layer = layer_of(path), layer_of(target)
    if any(fnmatchcase(path, a) and fnmatchcase(target, b) for a, b in EXCEPTIONS):
        return True
    if target_layer not in ALLOWED[layer]:
        return False
    if (layer, target_layer) in OWN_FOLDER_ONLY:
        return path.split("/")[:3] == target.split("/")[:3]
    return True


def problems_in(root, path):
    layer = layer_of(path)
    if layer is None:
        return [f"{path}: belongs to no layer; add its folder to LAYERS"]
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    problems = []
    for match in INCLUDE.finditer(text):
        bracket, name = match.groups()
        where = f"{path}:{text.count(chr(10), 0, match.start(2)) + 1}"
        target = resolve(root, path, bracket, name)
        if target is None:
            if name.startswith(OWN_PREFIXES):
                problems.append(f"{where}: {name} does not exist")
        elif layer_of(target) is None:
            problems.append(f"{where}: {target} belongs to no layer")
        elif not is_allowed(path, target):
            problems.append(f"{where}: {layer} may not include {target} ({layer_of(target)})")
    return problems


def main(root):
    paths = repository_files(root, SUFFIXES, FOLDERS)
    problems = [problem for path in paths for problem in problems_in(root, path)]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"layers: {len(paths)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    default_root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else default_root))
