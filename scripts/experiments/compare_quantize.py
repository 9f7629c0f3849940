#!/usr/bin/env python3
"""compare_quantize.py MODEL=TEXT...: quantizes models with onepass and with llama.cpp, and compares
the perplexities of both files, their tensor types and that llama.cpp loads ours.

Needs llama-cpp-python; the perplexities are both onepass's. A model that is quantized already is
quantized again. Exits 1 where onepass's perplexity is more than 1 % above llama.cpp's, where a type
differs or a file does not load."""

import argparse
import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile

import llama_bindings

TYPES = ("q4_0,q4_1,q5_0,q5_1,q8_0,q2_k,q3_k_s,q3_k_m,q3_k_l,q4_k_s,q4_k_m,q5_k_s,q5_k_m,q6_k,iq4_nl,"
         "iq4_xs,f16,bf16")
WORSE = 1.01  # the most that our perplexity may be of theirs


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("models", nargs="*", metavar="MODEL=TEXT")
    p.add_argument("--onepass", default="build/release/bin/onepass")
    p.add_argument("--llama", help="folder with the module llama_cpp (default: as installed)")
    p.add_argument("--types", default=TYPES)
    p.add_argument("--context", type=int, default=256)
    p.add_argument("--chunks", type=int, default=64)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--bos", action="store_true", help="as of onepass perplexity")
    p.add_argument("--out", help="append the table to this file")
    p.add_argument("--worker", nargs=4, metavar=("IN", "OUT", "FILE_TYPE", "OURS"),
                   help=argparse.SUPPRESS)
    return p.parse_args()


def worker(args):
    """Quantizes with llama.cpp and loads our file: a process of its own, for llama.cpp may abort."""
    source, target, file_type, ours = args.worker
    lib = llama_bindings.load_bindings(args.llama)
    params = lib.llama_model_quantize_default_params()
    params.ftype = int(file_type)
    params.nthread = args.threads
    params.allow_requantize = True
    if lib.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params)) != 0:
        raise RuntimeError(f"llama.cpp does not quantize {source}")
    model = llama_bindings.Model(lib, ours, args.threads, 64)
    rows = model.logits([1, 2, 3, 4])
    if not all(math.isfinite(x) for row in rows for x in row):
        raise RuntimeError(f"llama.cpp's logits of {ours} are not numbers")


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


def compare(args, model, text, kind, folder):
    """A row of the table, and what is wrong with it."""
    ours, theirs = os.path.join(folder, "ours.gguf"), os.path.join(folder, "theirs.gguf")
    made = command(args, "quantize", model, ours, kind, "--requantize", "--json")
    file_types = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9,
                  "q2_k": 10, "q3_k_s": 11, "q3_k_m": 12, "q3_k_l": 13, "q4_k_s": 14, "q4_k_m": 15,
                  "q5_k_s": 16, "q5_k_m": 17, "q6_k": 18, "iq4_nl": 25, "iq4_xs": 30, "bf16": 32}
    script = [sys.executable, os.path.abspath(__file__), "--threads", str(args.threads), "--worker",
              model, theirs, str(file_types[kind]), ours]
    if args.llama:
        script += ["--llama", args.llama]
    loads = subprocess.run(script, check=False, capture_output=True, text=True)
    problems = []
    if loads.returncode != 0:
        problems.append("llama.cpp: " + (loads.stderr.strip().splitlines() or ["?"])[-1])
    if not os.path.exists(theirs):
        return None, problems
    other = {n for n, t in tensor_types(args, theirs).items() if tensor_types_of(made)[n] != t}
    if other:
        problems.append(f"{len(other)} tensors have other types, {min(other)} for one")
    values = [perplexity(args, path, text) for path in (ours, theirs)]
    ratio = values[0] / values[1]
    if not ratio <= WORSE:
        problems.append(f"perplexity {ratio:.4f} of llama.cpp's")
    sizes = [os.path.getsize(path) / 1e6 for path in (ours, theirs)]
    row = (f"| {os.path.basename(model)} | {kind} | {made['after']['bits_per_weight']:.3f} | "
           f"{sizes[0]:.2f} | {sizes[1]:.2f} | {values[0]:.4f} | {values[1]:.4f} | "
           f"{(ratio - 1) * 100:+.2f} % | {'; '.join(problems) or 'yes'} |")
    return row, problems


def tensor_types_of(plan):
    return {t["name"]: t["to"].lower() for t in plan["tensors"]}


def main():
    args = parse_args()
    if args.worker:
        worker(args)
        return 0
    lines = ["| model | type | bits per weight | MB | MB, llama.cpp | perplexity | llama.cpp's | "
             "difference | same types, loads in llama.cpp, within 1 % |",
             "|---|---|---:|---:|---:|---:|---:|---:|---|"]
    failed = 0
    print("\n".join(lines), flush=True)
    for item in args.models:
        model, text = item.split("=", 1)
        for kind in args.types.split(","):
            with tempfile.TemporaryDirectory() as folder:
                row, problems = compare(args, model, text, kind, folder)
            lines.append(row or f"| {os.path.basename(model)} | {kind} | | | | | | | {problems} |")
            print(lines[-1], flush=True)
            failed += bool(problems)
    if args.out:
        with open(args.out, "a", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
