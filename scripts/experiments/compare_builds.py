#!/usr/bin/env python3
"""compare_builds.py BEFORE NOW [options]: is one build as fast as another?

BEFORE and NOW are folders with the programs of two builds, build/release/bin for instance. Every round
runs each model of `onepass bench` and each bench program of both in turn, so that a machine that changes
its speed does so for both. A round gives one ratio for each test, time before / time now: above 1 the new
build is faster. Printed is the median of the ratios with its bootstrap interval (95 %); rounds are added
until no interval is wider than --width, at most --max-rounds.

A test misses where its median is below --least or its interval wholly below 1. Exit status: 0; 1 where a
test misses; 2 where nothing could be compared.

    scripts/experiments/compare_builds.py ../before/build/release/bin build/release/bin
    scripts/experiments/compare_builds.py A B --models synthetic:llama1b:q4_0 --benches '' -p 0 -n 32
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys

STORY = "models/stories-12m-q8_0.gguf"
MODELS = [STORY, "synthetic:smollm135m:q8_0", "synthetic:llama1b:q4_0", "synthetic:llama1b:q4_k",
          "synthetic:llama1b:q8_0"]
BENCHES = ["encode_bench", "graph_bench"]
RESAMPLES = 2000


def parse_args():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("before", help="folder with the programs of the old build")
    p.add_argument("now", help="the same of the new one")
    p.add_argument("--models", default=",".join(MODELS), help="for onepass bench -m, separated by commas (%(default)s)")
    p.add_argument("--benches", default=",".join(BENCHES), help="bench programs (%(default)s)")
    p.add_argument("--filter", default=".", help="of benchmarks in them (%(default)s)")
    p.add_argument("-p", default="128", help="prompt tokens (%(default)s)")
    p.add_argument("-n", default="32", help="tokens generated (%(default)s)")
    p.add_argument("-r", type=int, default=3, help="repetitions in a process, of which the fastest counts (%(default)s)")
    p.add_argument("-t", type=int, default=2, help="threads (%(default)s)")
    p.add_argument("--rounds", type=int, default=9, help="at least so many (%(default)s)")
    p.add_argument("--max-rounds", type=int, default=45, help="%(default)s")
    p.add_argument("--width", type=float, default=0.03, help="of an interval, at most (%(default)s)")
    p.add_argument("--least", type=float, default=0.98, help="median ratio (%(default)s)")
    p.add_argument("--out", help="also write the ratios as JSON to this file")
    return p.parse_args()


def output_of(command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {result.returncode}\n{result.stderr.strip()}")
    return json.loads(result.stdout)


def time_model(folder, model, args):
    """{test: ns} of a model."""
    command = [os.path.join(folder, "onepass"), "bench", "--device", "cpu", "-m", model, "-p", args.p, "-n", args.n,
               "-r", str(args.r), "-t", str(args.t), "-o", "json"]
    name = model.removeprefix("synthetic:").removesuffix(".gguf").split("/")[-1]
    return {f"{name} {row['test']}": min(row["samples_ns"]) for row in output_of(command)}


def time_bench(folder, bench, args):
    """{benchmark: ns} of a Google Benchmark program; of one that is repeated the best."""
    command = [os.path.join(folder, bench), f"--benchmark_filter={args.filter}", "--benchmark_format=json",
               "--benchmark_min_time=0.05"]
    unit = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
    return {f"{bench} {row['run_name'].split('/min_time')[0]}": row["real_time"] * unit[row["time_unit"]]
            for row in output_of(command)["benchmarks"] if row.get("aggregate_name", "best") == "best"}


def interval(ratios):
    """Of the median, by drawing rounds again; the same for the same ratios."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 40], medians[RESAMPLES - 1 - RESAMPLES // 40]


def time_both(args, subject, now_first):
    """{test: (ns before, ns now)} of the tests that both builds have."""
    measure, name = subject
    folders = [args.before, args.now]
    taken = [{}, {}]
    for which in (1, 0) if now_first else (0, 1):
        taken[which] = measure(folders[which], name, args)
    before, now = taken
    return {test: (before[test], now[test]) for test in before if test in now}


def ratios_of(pairs):
    return [before / now for before, now in pairs]


def is_wide(args, pairs):
    low, high = interval(ratios_of(pairs))
    return high - low > args.width


def measure_all(args):
    """{test: [(ns before, ns now), ...]}; a subject whose intervals are narrow is done after --rounds."""
    subjects = [(time_model, m) for m in args.models.split(",") if m]
    subjects += [(time_bench, b) for b in args.benches.split(",") if b]
    times = {}
    for number in range(args.max_rounds):
        left = []
        for subject in subjects:
            taken = time_both(args, subject, number % 2 == 1)
            for test, pair in taken.items():
                times.setdefault(test, []).append(pair)
            if number + 1 < args.rounds or any(is_wide(args, times[test]) for test in taken):
                left.append(subject)
        print(f"round {number + 1}: {len(left)} of {len(subjects)} go on", file=sys.stderr)
        subjects = left
        if not subjects:
            break
    return times


def report(args, times):
    print("| test | before | now | rounds | ratio | interval | |")
    print("|---|---:|---:|---:|---:|---|---|")
    n_missed = 0
    for test, pairs in times.items():
        ratios = ratios_of(pairs)
        ratio, (low, high) = statistics.median(ratios), interval(ratios)
        missed = ratio < args.least or high < 1.0
        n_missed += missed
        mark = "missed" if missed else "wide" if high - low > args.width else ""
        before, now = (statistics.median(column) for column in zip(*pairs))
        print(f"| {test} | {before / 1e3:.4g} µs | {now / 1e3:.4g} µs | {len(pairs)} | {ratio:.3f} | "
              f"{low:.3f} to {high:.3f} | {mark} |")
    return n_missed


def main():
    args = parse_args()
    times = measure_all(args)
    if not times:
        print("nothing both builds have was measured", file=sys.stderr)
        return 2
    if args.out:
        with open(args.out, "w", encoding="utf-8") as f:
            json.dump(times, f, indent=1)
    n_missed = report(args, times)
    if n_missed:
        print(f"{n_missed} of {len(times)} tests miss", file=sys.stderr)
    return 1 if n_missed else 0


if __name__ == "__main__":
    sys.exit(main())
