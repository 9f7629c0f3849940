#!/usr/bin/env python3
"""draw_schedule.py PROGRAM SVG: one layer of the story model's pass as the device gets it, from
`onepass plan show`"""

import json
import os
import re
import subprocess
import sys
from xml.sax.saxutils import escape

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
MODEL = os.path.join(ROOT, "models", "stories-12m-q8_0.gguf")
# Beginnings of kernel names, and what fusions add behind a plus, in words.
WORDS = (("matmul", "matrix product"), ("rms_norm", "norm"), ("rope_store", "rope, store k and v"),
         ("attention", "attention"))
FORMS = {"parts": "of q, k and v at once", "gate": "of gate and up", "add": "and the residual",
         "q8a": "and rounding to 8 bits"}
STEP = re.compile(r"^ *(\d+) +(\d+)  (\S+) +(\d+) +([\d.]+ \w+)  (\S+)", re.MULTILINE)
ACROSS, WIDTH, HEIGHT, GAP = 4, 172, 84, 26
STYLE = """svg{background:#fff;font-family:system-ui,sans-serif;font-size:13px}text{fill:#1c2430}
.dim{fill:#5b6776;font-size:11px}.title{font-size:15px;font-weight:600}.box{fill:#d9ecff;stroke:#1769aa;stroke-width:1.5}
.edge{fill:none;stroke:#5b6776;stroke-width:1.5}.head{fill:#5b6776}
@media (prefers-color-scheme:dark){svg{background:#14181f}text{fill:#e4e9f0}.dim{fill:#9aa6b5}
.box{fill:#173450;stroke:#5fa8dc}.edge{stroke:#9aa6b5}.head{fill:#9aa6b5}}"""


def ask(program, *arguments):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ONEPASS_")}
    return subprocess.run([program, *arguments, "-q", "-m", MODEL, "--device", "cpu"], check=True, text=True,
                          env=environment, stdout=subprocess.PIPE).stdout


def words_of(kernel):
    """Lines of text: what the kernel is and what was fused into it."""
    name, *forms = kernel.split("+")
    return [next(words for start, words in WORDS if name.startswith(start)), *(FORMS[form] for form in forms)]


def wrapped(lines, letters=24):
    made = []
    for line in lines:
        made.append("")
        for word in line.split():
            if len(made[-1]) + len(word) >= letters:
                made.append("")
            made[-1] += (" " if made[-1] else "") + word
    return made


def draw(steps, recorded, dispatches):
    rows = -(-len(steps) // ACROSS)
    width = ACROSS * WIDTH + (ACROSS + 1) * GAP
    height = 62 + rows * (HEIGHT + GAP)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
             'role="img">', "<title>One layer as the device gets it</title>", f"<style>{STYLE}</style>",
             '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
             'orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
             f'<text class="title" x="{GAP}" y="26">One layer: {recorded} ops recorded, {len(steps)} dispatches run</text>',
             f'<text class="dim" x="{GAP}" y="45">story model, one token; {dispatches} dispatches in all. An arrow is a '
             "wait that the bytes ask for; nobody wrote one.</text>"]
    for i, (kernel, tiles, size, *_) in enumerate(steps):
        x, y = GAP + i % ACROSS * (WIDTH + GAP), 62 + i // ACROSS * (HEIGHT + GAP)
        parts.append(f'<rect class="box" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="7"/>')
        lines = wrapped(words_of(kernel))
        for j, line in enumerate(lines):
            parts.append(f'<text x="{x + 10}" y="{y + 20 + 15 * j}">{escape(line)}</text>')
        parts.append(f'<text class="dim" x="{x + 10}" y="{y + HEIGHT - 9}">{tiles} tile{"s" if tiles != "1" else ""}, '
                     f"{size}</text>")
        if i + 1 < len(steps):
            if (i + 1) % ACROSS:
                path = f"M{x + WIDTH} {y + HEIGHT / 2}h{GAP - 2}"
            else:
                path = (f"M{x + WIDTH / 2} {y + HEIGHT}v{GAP / 2}H{GAP + WIDTH / 2}v{GAP / 2 - 2}")
            parts.append(f'<path class="edge" d="{path}" marker-end="url(#head)"/>')
    return "\n".join([*parts, "</svg>", ""])


def main(argv):
    program = os.path.abspath(argv[0])
    plan = ask(program, "plan", "show")
    found = [(kernel, tiles, size, int(number), after) for number, _, kernel, tiles, size, after in STEP.findall(plan)]
    norms = [i for i, step in enumerate(found) if step[0].startswith("rms_norm")]
    layer = found[norms[2]:norms[4]]  # the second: two norms to a layer
    for before, step in zip(layer, layer[1:]):
        assert step[4] == str(before[3]), "the layer is no chain"
    counts = [json.loads(ask(program, "graph", "--json", *more)) for more in ((), ("--no-fuse",))]
    with open(argv[1], "w", encoding="utf-8") as file:
        file.write(draw(layer, counts[1]["dispatches_per_layer"], counts[0]["dispatches"]))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    main(sys.argv[1:])
