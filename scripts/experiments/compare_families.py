#!/usr/bin/env python3
"""compare_families.py FOLDER [--llama-cpp DIR]: logits of tiny models of every architecture beside those of
llama.cpp, after every token, in one chunk, token by token and in chunks of 7

FOLDER is what the program family_files wrote (tests/model/family_files.cpp):

    cmake --build build/release --target family_files
    build/release/bin/family_files /tmp/families
    scripts/experiments/compare_families.py /tmp/families

Needs llama-cpp-python. Prints the largest NMSE of each file, and exits with 1 where one is above the bound. A file
that llama.cpp does not load is named, with nothing to compare: it has a tensor that llama.cpp has no place for."""

import argparse
import ctypes
import pathlib
import sys

import numpy as np

from llama_bindings import Model, load_bindings

TOKENS = [(i * 37 + i * i * 5 + 3) % 101 for i in range(40)]
# llama.cpp looks GELU up in a table of f16.
GELU = ("gemma", "gemma2", "gemma3", "gemma4", "starcoder2", "gptneox", "gpt2", "phi2", "falcon")

# Files that llama.cpp reads in another way, and why we do not.
KNOWN = {
    "ernie4_5--with-attn_output.bias": "it loads the bias and does not add it",
    "ernie4_5-moe--with-attn_output.bias": "it loads the bias and does not add it",
    "qwen2vl--with-output.bias": "it loads the bias and does not add it",
    "minicpm--plain": "without logit_scale it multiplies where the model divides",
}


def reference(model, chunk):
    """Logits after every token, [tokens, vocab]."""
    model.clear()
    rows = []
    for at in range(0, len(TOKENS), chunk):
        part = TOKENS[at:at + chunk]
        batch = model.lib.llama_batch_init(len(part), 0, 1)
        batch.n_tokens = len(part)
        for i, token in enumerate(part):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, at + i, 1, 1
            batch.seq_id[i][0] = 0
        model.decode(batch)
        for i in range(len(part)):
            logits = model.lib.llama_get_logits_ith(model.context, i)
            rows.append(np.array(ctypes.cast(logits, ctypes.POINTER(ctypes.c_float * model.vocab)).contents))
        model.lib.llama_batch_free(batch)
    return np.stack(rows).astype(np.float64)


def compare(lib, path):
    """The largest NMSE of all logits over the three ways, and llama.cpp's own between them."""
    try:
        model = Model(lib, str(path), 1, 64, f32_cache=True, flash=False)
    except RuntimeError:
        return None
    expected = {chunk: reference(model, chunk) for chunk in (40, 1, 7)}
    model.close()
    size = np.mean(expected[40] ** 2)
    worst = noise = 0.0
    for chunk, logits in expected.items():
        ours = np.fromfile(path.with_suffix(f".{chunk}.f32"), np.float32).reshape(logits.shape)
        error = np.mean((ours - logits) ** 2) / size
        worst = max(worst, error if np.isfinite(error) else 1.0)
        noise = max(noise, np.mean((expected[40] - logits) ** 2) / size)
    return worst, noise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--llama-cpp", help="folder with the Python package llama_cpp")
    args = parser.parse_args()
    lib = load_bindings(args.llama_cpp)
    wrong, refused, compared = [], [], 0
    for path in sorted(args.folder.glob("*.gguf")):
        architecture = path.stem.split("--")[0]
        result = compare(lib, path)
        if result is None:
            refused.append(path.stem)
            continue
        compared += 1
        worst, noise = result
        bound = 1e-6 if architecture in GELU else max(10 * noise, 1e-9)
        note = ""
        if not worst <= bound:
            note = KNOWN.get(path.stem, "WRONG")
            wrong += [path.stem] if note == "WRONG" else []
        print(f"{path.stem:50} NMSE {worst:8.1e}  noise {noise:8.1e}  {note}")
    print(f"\n{compared} files compared, {len(wrong)} wrong: {' '.join(wrong) or '-'}")
    print(f"{len(refused)} that llama.cpp does not load: {' '.join(refused) or '-'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
