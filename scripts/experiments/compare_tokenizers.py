#!/usr/bin/env python3
"""compare_tokenizers.py ONEPASS VOCABULARY.gguf TEXT... [--llama-cpp DIR] [--folder DIR]: ids of texts under every
name of a pre-tokenizer, beside those of llama.cpp

The vocabulary is one with merges (ggml-vocab-gpt-2.gguf); it is written once for each name into the folder, with
tokenizer.ggml.pre changed, and both programs tokenize each text's lines with it. Needs llama-cpp-python and gguf.
Prints the names that give other ids, with the first line that does, and exits with 1 where there are some."""

import argparse
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf

from llama_bindings import load_bindings

NAMES = """a.x-4.0 bailingmoe bailingmoe2 bloom chatglm-bpe codeshell cohere2moe command-r dbrx deepseek-coder
deepseek-llm deepseek-r1-qwen deepseek-v3 default exaone exaone-moe exaone4 f2llmv2 falcon falcon-h1 falcon3 gigachat
glm4 glm5 gpt-2 gpt-4o gpt3-finnish granite-docling grok-2 hunyuan hunyuan-dense hy_v4 jais joyai-llm kanana2 kormo
lfm2 llada-moe llama-bpe llama-v3 llama3 llama4 megrez mellum mellum2 midm-2.0 minerva-7b minicpm5 minimax-m2 mpt olmo
phi-2 pixtral poro-chat qwen2 qwen35 refact seed-coder smaug-bpe smollm solar-open stablelm2 starcoder talkie tekken
tiny_aya trillion ufakzeka viking""".split()

# Where llama.cpp's expressions are not those of the published tokenizers.
KNOWN = {name: "no end of a word is seen between digits and letters there: 1000s"
         for name in ("cohere2moe", "tiny_aya")}


def write_with(vocabulary, pre, path):
    """The vocabulary with another value of tokenizer.ggml.pre."""
    writer = gguf.GGUFWriter(path, "llama")
    for name, field in vocabulary.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "tokenizer.ggml.pre"):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=sub)
    writer.add_string("tokenizer.ggml.pre", pre)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def reference(lib, path, texts):
    params = lib.llama_model_default_params()
    params.vocab_only = True
    model = lib.llama_model_load_from_file(str(path).encode(), params)
    vocab = lib.llama_model_get_vocab(model)
    rows = []
    for text in texts:
        data = text.encode()
        ids = (ctypes.c_int32 * (len(data) + 8))()
        n = lib.llama_tokenize(vocab, data, len(data), ids, len(ids), False, False)
        rows.append(list(ids[:n]))
    lib.llama_model_free(model)
    return rows


def ours(onepass, path, texts):
    rows = []
    for text in texts:
        run = subprocess.run([onepass, "tokenize", "-m", str(path), "--json", "-"], input=text.encode(),
                             capture_output=True, check=True)
        rows.append(json.loads(run.stdout)["ids"])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("onepass")
    parser.add_argument("vocabulary")
    parser.add_argument("texts", nargs="+", type=pathlib.Path)
    parser.add_argument("--llama-cpp", help="folder with the Python package llama_cpp")
    parser.add_argument("--folder", type=pathlib.Path)
    args = parser.parse_args()
    folder = args.folder or pathlib.Path(tempfile.mkdtemp())
    lib = load_bindings(args.llama_cpp)
    vocabulary = gguf.GGUFReader(args.vocabulary)
    texts = [p.read_text(encoding="utf-8")[:60000] for p in args.texts]
    wrong = []
    for pre in NAMES:
        path = folder / f"{pre}.gguf"
        write_with(vocabulary, pre, path)
        expected, got = reference(lib, path, texts), ours(args.onepass, path, texts)
        path.unlink()
        if expected == got:
            print(f"{pre:20} {sum(map(len, got))} ids")
            continue
        if pre in KNOWN:
            print(f"{pre:20} {KNOWN[pre]}")
            continue
        wrong.append(pre)
        text = next(i for i, row in enumerate(expected) if row != got[i])
        at = next(i for i, pair in enumerate(zip(expected[text], got[text])) if pair[0] != pair[1])
        print(f"{pre:20} DIFFERS in {args.texts[text].name} at token {at}: {expected[text][at - 3:at + 3]} "
              f"{got[text][at - 3:at + 3]}")
    print(f"{len(NAMES)} names, {len(wrong)} differ: {' '.join(wrong) or '-'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
