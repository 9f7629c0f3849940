#!/usr/bin/env python3
"""compare_quantize.py MODEL=TEXT[=IMATRIX]...: quantizes models with onepass and with llama.cpp, and
compares the perplexities of both files, their tensor types and that each program loads the other's.
With --plans only the types of all tensors that both would write, MODEL without TEXT; in a second.

Every type without an importance matrix, unless it needs one, and with the one that is given.
llama-quantize has no nvfp4, and mxfp4 only for experts: those two, mxfp4 for every matrix, are compared
with the quantizer of the gguf package, or of ggml where that has none. Needs llama-cpp-python, gguf and
numpy; the perplexities are both onepass's. A model that is quantized already is quantized again. Exits 1
where onepass's perplexity is more than 1 % above, where a type differs or a file does not load."""

import argparse
import ctypes
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

import llama_bindings

# Of llama-quantize.
FILE_TYPES = {"f32": 0, "f16": 1, "bf16": 32, "q8_0": 7, "q6_k": 18, "q5_k_m": 17, "q5_k_s": 16,
              "q5_1": 9, "q5_0": 8, "q4_k_m": 15, "q4_k_s": 14, "q4_1": 3, "q4_0": 2, "iq4_nl": 25,
              "iq4_xs": 30, "q3_k_l": 13, "q3_k_m": 12, "q3_k_s": 11, "iq3_m": 27, "iq3_s": 26,
              "iq3_xs": 22, "iq3_xxs": 23, "q2_k": 10, "q2_k_s": 21, "iq2_m": 29, "iq2_s": 28,
              "iq2_xs": 20, "iq2_xxs": 19, "iq1_m": 31, "iq1_s": 24, "tq2_0": 37, "tq1_0": 36,
              "q2_0": 41, "q1_0": 40, "mxfp4_moe": 38}
# Of the gguf package: type of the file, and of its matrices.
PACKAGE_TYPES = {"nvfp4": ("nvfp4", []), "mxfp4": ("mxfp4_moe", ["--pure"])}
WORSE = 1.01  # the most that our perplexity may be of theirs


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("models", nargs="*", metavar="MODEL=TEXT[=IMATRIX]")
    p.add_argument("--onepass", default="build/release/bin/onepass")
    p.add_argument("--llama", help="folder with the module llama_cpp (default: as installed)")
    p.add_argument("--types", default=",".join([*FILE_TYPES, *PACKAGE_TYPES]))
    p.add_argument("--context", type=int, default=256)
    p.add_argument("--chunks", type=int, default=64)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--bos", action="store_true", help="as of onepass perplexity")
    p.add_argument("--plans", action="store_true", help="compare the types of tensors only")
    p.add_argument("--out", help="append the table to this file")
    p.add_argument("--worker", nargs=5, metavar=("IN", "OUT", "FILE_TYPE", "OURS", "IMATRIX"),
                   help=argparse.SUPPRESS)
    return p.parse_args()


def importance(lib, path):
    """An importance matrix as llama_model_quantize wants it: mean squares by tensor."""
    import gguf  # pylint: disable=import-outside-toplevel
    import numpy  # pylint: disable=import-outside-toplevel

    tensors = {t.name: t.data for t in gguf.GGUFReader(path).tensors}
    entries = []
    for name, sums in tensors.items():
        if not name.endswith(".in_sum2"):
            continue
        counts = tensors[name.removesuffix(".in_sum2") + ".counts"].reshape(-1, 1)
        means = numpy.where(counts > 0, sums.reshape(len(counts), -1) / numpy.maximum(counts, 1), 1)
        values = (ctypes.c_float * means.size)(*means.ravel().tolist())
        entries.append(lib.llama_model_imatrix_data(
            name.removesuffix(".in_sum2").encode(), ctypes.cast(values, ctypes.POINTER(ctypes.c_float)),
            means.size))
    entries.append(lib.llama_model_imatrix_data(None, None, 0))
    return (lib.llama_model_imatrix_data * len(entries))(*entries)


def worker(args):
    """Quantizes with llama.cpp and loads our file: a process of its own, for llama.cpp may abort."""
    source, target, file_type, ours, imatrix = args.worker
    lib = llama_bindings.load_bindings(args.llama)
    if file_type != "none":
        params = lib.llama_model_quantize_default_params()
        params.ftype = int(file_type)
        params.nthread = args.threads
        params.allow_requantize = True
        if imatrix != "none":
            matrix = importance(lib, imatrix)
            params.imatrix = ctypes.cast(matrix, type(params.imatrix))
        if lib.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params)) != 0:
            raise RuntimeError(f"llama.cpp does not quantize {source}")
    model = llama_bindings.Model(lib, ours, args.threads, 64)
    rows = model.logits([1, 2, 3, 4])
    if not all(math.isfinite(x) for row in rows for x in row):
        raise RuntimeError(f"llama.cpp's logits of {ours} are not numbers")


def quantize_with_ggml(lib, floats, kind):
    """By ggml, of a type that the gguf package only reads."""
    import gguf  # pylint: disable=import-outside-toplevel
    import numpy  # pylint: disable=import-outside-toplevel

    folder = os.path.join(os.path.dirname(lib.__file__), "lib")
    ggml = ctypes.CDLL(os.path.join(folder, "libggml-base.so"))
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    block, size = gguf.GGML_QUANT_SIZES[kind]
    cols = floats.shape[-1]
    out = numpy.zeros((floats.size // block) * size, numpy.uint8)
    pointer = ctypes.POINTER(ctypes.c_float)
    floats = numpy.ascontiguousarray(floats)
    ggml.ggml_quantize_chunk(ctypes.c_int(int(kind)), floats.ctypes.data_as(pointer),
                             out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(0),
                             ctypes.c_int64(floats.size // cols), ctypes.c_int64(cols), None)
    return out


def quantize_with_package(args, source, ours, target):
    """Our file with the numbers of the gguf package, or ggml, in its mxfp4 and nvfp4 tensors."""
    import gguf  # pylint: disable=import-outside-toplevel
    import numpy  # pylint: disable=import-outside-toplevel

    lib = llama_bindings.load_bindings(args.llama)
    shutil.copy(ours, target)
    values = {t.name: t for t in gguf.GGUFReader(source).tensors}
    for t in gguf.GGUFReader(target, "r+").tensors:
        if t.tensor_type.name in ("MXFP4", "NVFP4"):
            from_ = values[t.name]
            floats = gguf.quants.dequantize(from_.data, from_.tensor_type).astype(numpy.float32)
            try:
                data = gguf.quants.quantize(floats, t.tensor_type)
            except NotImplementedError:
                data = quantize_with_ggml(lib, floats, t.tensor_type)
            t.data[:] = data.reshape(t.data.shape)


def command(args, *words):
    result = subprocess.run([args.onepass, *words], check=False, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{args.onepass} {' '.join(words)}: {result.stderr.strip()}")
    return json.loads(result.stdout)


def perplexity(args, path, text):
    return command(args, "perplexity", "-m", path, "-f", text, "-c", str(args.context), "--chunks",
                   str(args.chunks), "-t", str(args.threads), "--json",
                   *(["--bos"] if args.bos else []))["perplexity"]


def tensor_types(args, path):
    """By the plan of copying the file as it is."""
    plan = command(args, "quantize", path, "none", "f32", "--requantize", "--dry-run", "--json")
    return {t["name"]: t["from"].lower() for t in plan["tensors"]}


def make_theirs(args, model, kind, imatrix, files):
    """The other file; what is wrong with ours in llama.cpp, if anything."""
    ours, theirs = files
    if kind in PACKAGE_TYPES:
        quantize_with_package(args, model, ours, theirs)
    script = [sys.executable, os.path.abspath(__file__), "--threads", str(args.threads), "--worker",
              model, theirs, str(FILE_TYPES.get(kind, "none")), ours, imatrix or "none"]
    if args.llama:
        script += ["--llama", args.llama]
    loads = subprocess.run(script, check=False, capture_output=True, text=True)
    if loads.returncode != 0:
        return ["llama.cpp: " + (loads.stderr.strip().splitlines() or ["?"])[-1]]
    return []


def compare(args, model, text, kind, imatrix, folder):  # pylint: disable=too-many-arguments
    """A row of the table, and what is wrong with it."""
    files = ours, theirs = os.path.join(folder, "ours.gguf"), os.path.join(folder, "theirs.gguf")
    name, options = PACKAGE_TYPES.get(kind, (kind, []))
    options = options + (["--imatrix", imatrix] if imatrix else [])
    made = command(args, "quantize", model, ours, name, *options, "--requantize", "--json")
    problems = make_theirs(args, model, kind, imatrix, files)
    if not os.path.exists(theirs):
        return None, problems
    other = {n for n, t in tensor_types(args, theirs).items() if tensor_types_of(made)[n] != t}
    if other:
        problems.append(f"{len(other)} tensors have other types, {min(other)} for one")
    values = [perplexity(args, path, text) for path in (ours, theirs)]
    ratio = values[0] / values[1]
    if not ratio <= WORSE:
        problems.append(f"perplexity {ratio:.4f} of the other's")
    sizes = [os.path.getsize(path) / 1e6 for path in (ours, theirs)]
    row = (f"| {os.path.basename(model)} | {kind} | {'yes' if imatrix else 'no'} | "
           f"{made['after']['bits_per_weight']:.3f} | {sizes[0]:.2f} | {sizes[1]:.2f} | "
           f"{values[0]:.4f} | {values[1]:.4f} | {(ratio - 1) * 100:+.2f} % | "
           f"{'; '.join(problems) or 'yes'} |")
    return row, problems


def needs_imatrix(args, model, kind):
    name, options = PACKAGE_TYPES.get(kind, (kind, []))
    plan = command(args, "quantize", model, "none", name, *options, "--requantize", "--dry-run",
                   "--json")
    return any(t["importance"] == "needed" for t in plan["tensors"])


def tensor_types_of(plan):
    return {t["name"]: t["to"].lower() for t in plan["tensors"]}


def planned_by_llama(lib, log, model, kind, imatrix):
    """The types of all tensors, from what llama-quantize tells in a dry run."""
    params = lib.llama_model_quantize_default_params()
    params.ftype = FILE_TYPES[kind]
    params.allow_requantize = params.dry_run = True
    if imatrix:
        matrix = importance(lib, imatrix)
        params.imatrix = ctypes.cast(matrix, type(params.imatrix))
    log.clear()
    if lib.llama_model_quantize(model.encode(), b"none", ctypes.byref(params)) != 0:
        raise RuntimeError(f"llama.cpp does not quantize {model}")
    row = re.compile(r"\[ *\d+/ *\d+\] +(\S+) +- \[.*\], type = +(\w+), size = .*?(?:\((\w+)\))?$")
    found = [row.match(line) for line in "".join(log).splitlines()]
    return {m[1]: (m[3] or m[2]).lower() for m in found if m}


def write_even_matrix(model, path):
    """An importance matrix of the model in which all columns are alike."""
    import gguf  # pylint: disable=import-outside-toplevel
    import numpy  # pylint: disable=import-outside-toplevel

    writer = gguf.GGUFWriter(path, "imatrix")
    for t in gguf.GGUFReader(model).tensors:
        if len(t.shape) > 1:
            matrices = int(t.shape[2]) if len(t.shape) > 2 else 1
            sums = numpy.ones((matrices, int(t.shape[0])), numpy.float32)
            writer.add_tensor(t.name + ".in_sum2", sums)
            writer.add_tensor(t.name + ".counts", numpy.ones((matrices, 1), numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def compare_plans(args):
    """How many types of files differ in some tensor; prints them."""
    lib = llama_bindings.load_bindings(args.llama)
    log = []
    keep = lib.llama_log_callback(lambda level, text, data: log.append(text.decode(errors="replace")))
    lib.llama_log_set(keep, ctypes.c_void_p(0))
    kinds = [k for k in args.types.split(",") if k in FILE_TYPES and k != "f32"]
    compared = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for model in args.models:
            matrix = os.path.join(folder, "imatrix.gguf")
            write_even_matrix(model, matrix)
            for kind, way in ((kind, way) for kind in kinds for way in ("", matrix)):
                theirs = planned_by_llama(lib, log, model, kind, way)
                plan = command(args, "quantize", model, "none", kind, "--requantize", "--dry-run",
                               "--json", *(["--imatrix", way] if way else []))
                ours = tensor_types_of(plan)
                other = [n for n in ours if theirs.get(n) != ours[n]]
                compared += 1
                failed += bool(other)
                for n in other[:3]:
                    print(f"{model} {kind} {'with' if way else 'without'} importance: {n} is "
                          f"{ours[n]}, llama-quantize's {theirs.get(n)}")
    print(f"{compared} plans, {failed} differ")
    return failed


def main():
    args = parse_args()
    if args.worker:
        worker(args)
        return 0
    if args.plans:
        return 1 if compare_plans(args) else 0
    lines = ["| model | type | importance | bits per weight | MB | MB, theirs | perplexity | theirs | "
             "difference | same types, loads in llama.cpp, within 1 % |",
             "|---|---|---|---:|---:|---:|---:|---:|---:|---|"]
    failed = 0
    print("\n".join(lines), flush=True)
    for item in args.models:
        model, text, imatrix = (item.split("=") + [""])[:3]
        for kind in args.types.split(","):
            ways = [] if needs_imatrix(args, model, kind) else [""]
            for way in ways + ([imatrix] if imatrix else []):
                with tempfile.TemporaryDirectory() as folder:
                    row, problems = compare(args, model, text, kind, way, folder)
                lines.append(row or f"| {os.path.basename(model)} | {kind} | {way or 'no'} | | | | | "
                             f"| | {problems} |")
                print(lines[-1], flush=True)
                failed += bool(problems)
    if args.out:
        with open(args.out, "a", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
