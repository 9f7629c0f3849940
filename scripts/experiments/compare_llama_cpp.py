#!/usr/bin/env python3
"""compare_llama_cpp.py [options]: onepass and llama.cpp on the same files, threads and tests

Every repeat runs both programs on every model in turn, so that a machine that changes its speed does so
for both; medians are compared. Prints a Markdown table with date, commit, versions and a calibration: the
time of a fixed loop of Python before every run, which is larger where something else was running. Needs
llama-cpp-python (pip install llama-cpp-python, or --llama FOLDER).

--layer compares matrix products alone as far as that goes: pp512 of one layer of an 8B Llama in q4_0, q8_0
and q4_k. Both programs leave out what nobody asked for in the last layer, each in its own way; so files of
one and of three layers are run, and half the difference of their times is that of a whole layer. It makes
the files where they are missing (needs numpy and gguf).

--all-formats compares every weight format of GGUF on four shapes, two of which stay in the cache; files
are made as above. Beside the ratio stands the lower end of its interval (95 %, of the median of the repeats),
and how fast weights are read beside our own q4_0.

    scripts/experiments/compare_llama_cpp.py --models build/models --onepass build/release/bin/onepass
    scripts/experiments/compare_llama_cpp.py --models build/formats --all-formats --check
    scripts/experiments/compare_llama_cpp.py --models build/layers --layer
"""

import argparse
import datetime
import glob
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time

DEFAULT_MODELS = "tiny:q8_0,smollm135m:q4_0,smollm135m:q8_0,qwen3-0.6b:q4_0,llama1b:q4_0"
FEW, MORE = "llama8b-1-layers-", "llama8b-3-layers-"
LAYER_FORMATS = ("q4_0", "q8_0", "q4_k")
SMALL, LARGE = ("minimind2-small", "stories15m"), ("qwen3-0.6b", "llama1b")
GRID = ("iq3_s", "iq3_xxs", "iq2_s", "iq2_xs", "iq2_xxs", "iq1_s", "iq1_m")
# Formats that llama.cpp reads slowly or not at all: of the bytes per second of our own q4_0
OWN_SHARE = {f: 0.6 for f in ("mxfp4", "nvfp4", "tq1_0", "tq2_0", "q1_0", "q2_0")} | \
            {f: 0.5 for f in ("iq3_s", "iq3_xxs")}
RESAMPLES = 2000


def bars(name, kind):
    """What a model's ratio must reach, and what it should."""
    if name.startswith(tuple(f"{m}-{g}" for m in SMALL + LARGE for g in GRID)):
        return 1.0, 1.4
    if name.startswith(SMALL):
        return {"tg": 1.5, "pp": 1.3}[kind], 2.0
    if name.startswith(LARGE):
        return 1.1, 1.4
    if name.startswith("tiny") and kind == "tg":
        return 1.1, 2.0
    return {"tg": 1.1, "pp": 0.9}[kind], {"tg": 1.4, "pp": 1.1}[kind]


def lower_end(ratios):
    """Of the interval of their median."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)]


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--models", required=True, help="folder of GGUF files")
    p.add_argument("--only", help="names of files in it, without .gguf, separated by commas")
    p.add_argument("--make-gguf", metavar="SCRIPT",
                   help="first makes the missing ones: SCRIPT PRESET QUANT FILE.gguf")
    p.add_argument("--make", default=DEFAULT_MODELS, help="which: PRESET:QUANT,... (%(default)s)")
    p.add_argument("--layer", action="store_true", help="pp512 of one layer of an 8B Llama")
    p.add_argument("--all-formats", action="store_true", help="every format of GGUF on four shapes")
    p.add_argument("--onepass", default="build/release/bin/onepass")
    p.add_argument("--llama", metavar="FOLDER", help="where the llama_cpp module is")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--tests", help="(tg64,pp128,pp512; with --layer pp512)")
    p.add_argument("--out", help="also append the table to this file")
    p.add_argument("--check", action="store_true", help="exit 1 when a required ratio is missed")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.layer:
        args.only = args.only or ",".join(f + quant for quant in LAYER_FORMATS for f in (FEW, MORE))
    args.tests = args.tests or ("pp512" if args.layer else
                                "tg32,pp128" if args.all_formats else "tg64,pp128,pp512")
    return args


def make_random(args, names):
    """The missing ones of files named PRESET-QUANT."""
    import random_gguf  # pylint: disable=import-outside-toplevel
    os.makedirs(args.models, exist_ok=True)
    for name in names:
        path = os.path.join(args.models, name + ".gguf")
        if not os.path.exists(path):
            preset, quant = name.rsplit("-", 1)
            random_gguf.make(preset, quant, path + ".part")
            os.rename(path + ".part", path)


def all_formats():
    import random_gguf  # pylint: disable=import-outside-toplevel
    return [f"{shape}-{quant}" for shape in SMALL + LARGE for quant in random_gguf.QUANTS
            if quant != "f32"]


def calibrate():
    """Seconds of a fixed loop of integers."""
    begin = time.perf_counter()
    x = 1
    for _ in range(300000):
        x = (x * 6364136223846793005 + 1442695040888963407) & 0xffffffffffffffff
    return time.perf_counter() - begin


def make_models(args):
    os.makedirs(args.models, exist_ok=True)
    for item in args.make.split(","):
        preset, quant = item.split(":")
        path = os.path.join(args.models, f"{preset}-{quant}.gguf")
        if not os.path.exists(path):
            subprocess.run([sys.executable, args.make_gguf, preset, quant, path + ".part"],
                           check=True, stdout=subprocess.DEVNULL)
            os.rename(path + ".part", path)


def split(test):
    return test[:2], int(test[2:])


def worker(args):
    """llama.cpp's figures for one model, once: {test: tokens per second} on stdout."""
    import llama_bindings as bindings  # pylint: disable=import-outside-toplevel
    lib = bindings.load_bindings(args.llama)
    tests = [split(t) for t in args.tests.split(",")]
    model = bindings.Model(lib, args.worker, args.threads, max(n for _, n in tests) + 1)
    rng = random.Random(1)
    speeds = {}
    for kind, n in tests:
        tokens = [rng.randrange(model.vocab) for _ in range(n)]
        if kind == "pp":
            model.prompt_seconds(tokens)
            speeds[f"{kind}{n}"] = n / model.prompt_seconds(tokens)
        else:
            model.decode_seconds(tokens[:1])
            speeds[f"{kind}{n}"] = n / model.decode_seconds(tokens)
    print(json.dumps({"speeds": speeds, "version": lib.__version__,
                      "features": lib.llama_print_system_info().decode()}))


def run_llama(args, path):
    command = [sys.executable, os.path.abspath(__file__), "--worker", path, "--models", args.models,
               "--threads", str(args.threads), "--tests", args.tests]
    if args.llama:
        command += ["--llama", args.llama]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        how = f"signal {-result.returncode}" if result.returncode < 0 else f"status {result.returncode}"
        last = (result.stderr.splitlines() or ["without a message"])[-1]
        sys.exit(f"llama.cpp ended with {how} on {path}: {last}\n"
                 "Builds that use AMX crash on prompts on some machines: build one without it, or leave out pp tests.")
    return json.loads(result.stdout.splitlines()[-1])


def run_onepass(args, path):
    tests = [split(t) for t in args.tests.split(",")]
    command = [args.onepass, "bench", "--device", "cpu", "-m", path, "-t", str(args.threads), "-r", "1", "-o", "json",
               "-p", ",".join(str(n) for k, n in tests if k == "pp") or "0",
               "-n", ",".join(str(n) for k, n in tests if k == "tg") or "0"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(result.stdout)


class Results:
    def __init__(self):
        self.speeds = {}  # (model, test): {"ours": [...], "theirs": [...]}
        self.bandwidths = []
        self.facts = {}  # a row of our bench per model
        self.version = self.features = ""  # of llama-cpp-python
        self.calibrations = []

    def add(self, name, test, who, speed):
        cell = self.speeds.setdefault((name, test), {"ours": [], "theirs": []})
        cell[who].append(speed)
        print(f"  {name} {test} {who} {speed:.4g}", file=sys.stderr)

    def repeat(self, args, path, ours_first):
        name = os.path.basename(path)[:-len(".gguf")]
        for ours in (ours_first, not ours_first):
            self.calibrations.append(calibrate())
            if ours:
                for row in run_onepass(args, path):
                    self.bandwidths.append(row["memory_bytes_per_second"])
                    self.facts[name] = row
                    self.add(name, row["test"], "ours", row["avg_ts"])
            else:
                data = run_llama(args, path)
                self.version, self.features = data["version"], data["features"]
                for test, speed in data["speeds"].items():
                    self.add(name, test, "theirs", speed)


def of_one_layer(few, more):
    """Tokens per second through one layer, from runs of files with one and with three."""
    return [2 / (1 / b - 1 / a) for a, b in zip(few, more)]


def layers_of(results):
    """Rows of single layers in place of those of the files."""
    for (name, test), more in list(results.speeds.items()):
        if not name.startswith(MORE):
            continue
        quant = name[len(MORE):]
        few = results.speeds.get((FEW + quant, test))
        if few is None:
            continue
        layer = f"llama8b-layer-{quant}"
        results.facts[layer] = results.facts[name]
        results.speeds[layer, test] = {who: of_one_layer(few[who], more[who]) for who in more}
    results.speeds = {k: c for k, c in results.speeds.items() if k[0].startswith("llama8b-layer-")}


def measure(args, paths):
    """Interrupted, it gives what there is."""
    results = Results()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for repeat in range(args.repeats):
            print(f"repeat {repeat + 1} of {args.repeats}", file=sys.stderr)
            for path in paths:
                results.repeat(args, path, repeat % 2 == 0)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    results.speeds = {k: c for k, c in results.speeds.items() if c["ours"] and c["theirs"]}
    return results


def git(*args):
    result = subprocess.run(["git", *args], capture_output=True, text=True, check=False,
                            cwd=os.path.dirname(os.path.abspath(__file__)))
    return result.stdout.strip()


def own_share(results, name, test, missed):
    """How fast a format's weights are read, as a share of our own q4_0 of the same shape."""
    shape, quant = name.rsplit("-", 1)
    base = results.speeds.get((f"{shape}-q4_0", test))
    if test[:2] != "tg" or base is None:
        return ""

    def rate(key):
        return statistics.median(results.speeds[key, test]["ours"]) * results.facts[key]["bytes_per_token"]
    share = rate(name) / rate(f"{shape}-q4_0")
    if share < OWN_SHARE.get(quant, 0):
        missed.append(f"{name} {test}: {share:.2f} of q4_0's bytes per second, expected {OWN_SHARE[quant]}")
    return f"{share * 100:.0f} %"


def report(args, results):
    bandwidths = results.bandwidths
    bandwidth = statistics.median(bandwidths)
    some = next(iter(results.facts.values()))
    repeats = min(len(v) for c in results.speeds.values() for v in c.values())
    changed = " and changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    lines = [
        f"### {datetime.date.today()}, commit {git('rev-parse', '--short', 'HEAD')}{changed}",
        "",
        f"onepass {some['build_version']} against llama-cpp-python {results.version} on {some['device']}, "
        f"{args.threads} threads, medians of {repeats} interleaved runs (in brackets: smallest and "
        f"largest). Memory reads {bandwidth / 1e9:.1f} GB/s "
        f"({min(bandwidths) / 1e9:.1f} to {max(bandwidths) / 1e9:.1f}). Calibration "
        f"{statistics.median(results.calibrations) * 1e3:.1f} ms "
        f"({min(results.calibrations) * 1e3:.1f} to {max(results.calibrations) * 1e3:.1f}).",
        "",
        f"llama.cpp's features: {results.features.strip()}",
        "",
        "| model | test | onepass t/s | llama.cpp t/s | ratio | at least | required | goal "
        "| of the read bandwidth | of q4_0's bytes per second |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    missed = []
    for (name, test), cell in results.speeds.items():
        ours, theirs = (statistics.median(cell[k]) for k in ("ours", "theirs"))
        kind = test[:2]
        must, goal = bars(name, kind)
        ratios = [a / b for a, b in zip(cell["ours"], cell["theirs"])]
        ratio, low = statistics.median(ratios), lower_end(ratios)
        if ratio < must:
            missed.append(f"{name} {test}: {ratio:.2f} of {must}")
        mark = "missed" if ratio < must else "goal" if ratio >= goal else "met"
        share = ""
        if kind == "tg":
            share = f"{results.facts[name]['bytes_per_token'] * ours / bandwidth * 100:.0f} %"
        spread = {k: f"({min(cell[k]):.4g}–{max(cell[k]):.4g})" for k in cell}
        lines.append(f"| {name} | {test} | {ours:.4g} {spread['ours']} | "
                     f"{theirs:.4g} {spread['theirs']} | **{ratio:.2f}** | {low:.2f} | {must} ({mark}) | "
                     f"{goal} | {share} | {own_share(results, name, test, missed)} |")
    return "\n".join(lines) + "\n", missed


def main():
    args = parse_args()
    if args.worker:
        worker(args)
        return 0
    if args.all_formats:
        args.only = args.only or ",".join(all_formats())
    if args.layer or args.all_formats:
        make_random(args, args.only.split(","))
    if args.make_gguf:
        make_models(args)
    paths = sorted(glob.glob(os.path.join(args.models, "*.gguf")), key=os.path.getsize)
    if args.only:
        wanted = args.only.split(",")
        paths = [p for p in paths if os.path.basename(p)[:-len(".gguf")] in wanted]
    if not paths:
        print(f"no GGUF files in {args.models}", file=sys.stderr)
        return 2
    results = measure(args, paths)
    if args.layer:
        layers_of(results)
    if not results.speeds:
        return 1
    text, missed = report(args, results)
    print(text, end="")
    if args.out:
        with open(args.out, "a", encoding="utf-8") as f:
            f.write("\n" + text)
    for line in missed:
        print("missed: " + line, file=sys.stderr)
    return 1 if missed and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
