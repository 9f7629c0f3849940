#!/usr/bin/env python3
"""plot.py LOSS.csv OUT.svg: draws the loss curve that train.py wrote."""

import csv
import math
import sys

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 56, 56
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #57606a }
.title { font-size: 16px; font-weight: 600; fill: #24292f }
.grid { stroke: #d0d7de; stroke-width: 1 }
.train { fill: none; stroke: #0969da; stroke-width: 2; stroke-linejoin: round }
.val { fill: none; stroke: #bc4c00; stroke-width: 2; stroke-linejoin: round }
.dot { fill: #bc4c00 } .back { fill: #ffffff }
@media (prefers-color-scheme: dark) {
text { fill: #8d96a0 } .title { fill: #e6edf3 } .grid { stroke: #30363d }
.train { stroke: #4493f8 } .val { stroke: #f0883e } .dot { fill: #f0883e } .back { fill: #0d1117 }
}
</style>"""


def nice_step(span, count):
    """A round step (1, 2 or 5 times a power of ten) that cuts `span` into about `count` parts."""
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough)


def read_curve(path):
    """[(million tokens, training loss)], [(million tokens, validation loss)]"""
    train, val = [], []
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            tokens = int(row["tokens"]) / 1e6
            train.append((tokens, float(row["train_loss"])))
            if row["val_loss"]:
                val.append((tokens, float(row["val_loss"])))
    if not train:
        raise SystemExit(f"{path}: no rows")
    return train, val


def draw(train, val):
    """The SVG text. The axis starts a little below the lowest loss and ends where the steep start
    is still visible."""
    losses = sorted(y for _, y in train + val)
    low = losses[0]
    high = min(losses[-1], low + 4 * max(0.1, losses[len(losses) // 2] - low))
    step = nice_step(max(high - low, 1e-3), 5)
    low = math.floor(low / step - 0.2) * step
    high = math.ceil(high / step) * step
    last = train[-1][0]

    def x_of(tokens):
        return LEFT + tokens / last * (WIDTH - LEFT - RIGHT)

    def y_of(loss):
        return HEIGHT - BOTTOM - (loss - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def line(points, name):
        text = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points)
        return f'<polyline class="{name}" clip-path="url(#area)" points="{text}"/>'

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
           f'aria-label="Loss over training tokens">', STYLE,
           f'<clipPath id="area"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" '
           f'height="{HEIGHT - TOP - BOTTOM}"/></clipPath>',
           f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>',
           f'<text class="title" x="{LEFT}" y="30">Cross-entropy per token (nats)</text>']
    for i in range(round((high - low) / step) + 1):
        loss = low + i * step
        y = y_of(loss)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
                   f'{loss:.{max(0, -math.floor(math.log10(step)))}f}</text>')
    across = nice_step(last, 6)
    for i in range(int(last / across) + 1):
        out.append(f'<text x="{x_of(i * across):.1f}" y="{HEIGHT - BOTTOM + 20}" '
                   f'text-anchor="middle">{i * across:g}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}" text-anchor="middle">'
               f'million training tokens</text>')
    out.append(line(train, "train"))
    if val:
        out.append(line(val, "val"))
        out += [f'<circle class="dot" r="3" cx="{x_of(x):.1f}" cy="{y_of(y):.1f}"/>'
                for x, y in val if y <= high]
    key = [("train", f"training {train[-1][1]:.3f}")]
    if val:
        key.append(("val", f"validation {val[-1][1]:.3f}"))
    for i, (name, text) in enumerate(key):
        x = WIDTH - RIGHT - 340 + 170 * i
        out.append(f'<line class="{name}" x1="{x}" x2="{x + 24}" y1="26" y2="26"/>'
                   f'<text x="{x + 32}" y="30">{text}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(draw(*read_curve(sys.argv[1])))


if __name__ == "__main__":
    main()
