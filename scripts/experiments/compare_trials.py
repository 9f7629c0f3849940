#!/usr/bin/env python3
"""compare_trials.py PROGRAM [--trials N] [--slower PERCENT] [--out FILE]: how often `onepass bench
--compare` errs. Each trial is two runs with the defaults, directly after each other: the second must
not be called slower than the first, and must be where its times are made longer by PERCENT. Trials
are added to FILE, so that they can be made in parts; a machine that does anything else spoils them."""

import argparse
import json
import os
import subprocess
import sys
import tempfile


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--slower", type=float, default=3.0)
    parser.add_argument("--out", default="compare_trials.json")
    args = parser.parse_args()
    done = []
    if os.path.exists(args.out):
        with open(args.out, encoding="utf-8") as file:
            done = json.load(file)
    with tempfile.TemporaryDirectory() as folder:
        names = [os.path.join(folder, name) for name in ("before", "now", "slower")]

        def verdicts(now):
            result = subprocess.run([args.program, "bench", "--compare", names[0], "--with", now,
                                     "-o", "json"], capture_output=True, check=False)
            return {row["test"]: row["verdict"] for row in json.loads(result.stdout)}

        for _ in range(args.trials):
            for name in names[:2]:
                with open(name, "wb") as file:
                    subprocess.run([args.program, "bench", "-q", "-o", "json"], stdout=file, check=True)
            with open(names[1], encoding="utf-8") as file:
                rows = json.load(file)
            for row in rows:
                row["samples_ns"] = [x * (1 + args.slower / 100) for x in row["samples_ns"]]
            with open(names[2], "w", encoding="utf-8") as file:
                json.dump(rows, file)
            done.append({"same": verdicts(names[1]), "slower": verdicts(names[2])})
            with open(args.out, "w", encoding="utf-8") as file:
                json.dump(done, file)
    false_alarms = sum("slower" in trial["same"].values() for trial in done)
    found = sum(all(v == "slower" for v in trial["slower"].values()) for trial in done)
    print(f"{len(done)} trials: {false_alarms} false alarms, {args.slower:g} % slower found in {found}")


if __name__ == "__main__":
    sys.exit(main())
