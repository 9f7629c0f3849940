#!/usr/bin/env python3
"""Trains the model on DATA/tokens.bin (prepare.py tokens) for --epochs passes over the text or
--total-minutes of wall-clock time, whichever ends first.

Every --save-s seconds DATA/checkpoint.pt is written, and OUT/model.gguf, OUT/loss.csv and OUT/run.json
with it; at the end come OUT/samples.txt and the weights in half precision, OUT/weights-{0,1}.npz.
A run stops after --minutes; --resume continues it from DATA/checkpoint.pt.
"""

import argparse
import contextlib
import csv
import dataclasses
import json
import math
import os
import time

START = time.time()

import numpy as np
import torch

import export
import spm
from model import Config, Model
from prepare import VOCABULARY

MEASURE_FROM, MEASURE_TO = 20, 60  # steps that are timed to fix the length of the run
ENDING_S = 30  # kept for the last evaluation, samples and files
COLUMNS = ("step", "tokens", "epochs", "seconds", "lr", "train_loss", "val_loss")
PROMPTS = ("", "Once upon a time, there was a little dragon", "One day, a girl named Mia found a key",
           "Tom and his dog went to the beach", "The old robot was sad because")


class Stories:
    """Token rows that each begin at a story's start and hold consecutive stories of a shuffle; the
    last one is cut where the row ends."""

    def __init__(self, ids, device, row):
        self.device, self.row = device, row
        self.ids = torch.from_numpy(ids.astype(np.int16)).to(device)
        self.starts = np.flatnonzero(ids == spm.BOS)
        self.sizes = np.diff(np.append(self.starts, len(ids)))

    def rows(self, order):
        """[rows, row + 1] int16 over the stories in `order`."""
        sizes = self.sizes[order]
        begin = np.cumsum(sizes) - sizes
        total = int(sizes.sum())
        following = np.searchsorted(begin, begin + self.row + 1).tolist()
        limit = int(np.searchsorted(begin, total - self.row - 1, side="right"))
        firsts, i = [], 0
        while i < limit:
            firsts.append(i)
            i = following[i]
        shift = torch.from_numpy(self.starts[order] - begin).to(self.device)
        pick = torch.repeat_interleave(shift, torch.from_numpy(sizes).to(self.device))
        stream = self.ids[pick + torch.arange(total, device=self.device)]
        at = torch.from_numpy(begin[firsts]).to(self.device)
        return stream[at[:, None] + torch.arange(self.row + 1, device=self.device)]

    def batches(self, seed, batch, skip):
        """Endless batches of `batch` rows, a new shuffle every epoch, without the first `skip`."""
        epoch = 0
        while True:
            rng = np.random.default_rng([seed, epoch])
            rows = self.rows(rng.permutation(len(self.sizes)))
            rows = rows[torch.from_numpy(rng.permutation(len(rows))).to(self.device)]
            for i in range(len(rows) // batch):
                if skip > 0:
                    skip -= 1
                else:
                    yield rows[i * batch:(i + 1) * batch].long()
            epoch += 1


def load_stories(path, device, row):
    """Training stories and the last 0.5 % of the stories for validation."""
    ids = np.fromfile(path, dtype=np.uint16)
    starts = np.flatnonzero(ids == spm.BOS)
    cut = starts[len(starts) - max(1, len(starts) // 200)]
    return Stories(ids[:cut], device, row), Stories(ids[cut:], device, row)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(args.seed)
        torch.set_float32_matmul_precision("high")
        self.config = Config(**{f.name: getattr(args, f.name) for f in dataclasses.fields(Config)
                                if getattr(args, f.name, None) is not None})
        self.vocabulary = spm.Vocabulary.load(VOCABULARY)
        self.model = Model(self.config, args.dropout).to(self.device)
        self.average = Model(self.config).to(self.device).eval().requires_grad_(False)
        self.average.load_state_dict(self.model.state_dict())
        self.parameters = sum(p.numel() for p in self.model.parameters())
        matrices = [p for p in self.model.parameters() if p.dim() == 2]
        vectors = [p for p in self.model.parameters() if p.dim() == 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": args.weight_decay},
             {"params": vectors, "weight_decay": 0.0}],
            lr=args.lr, betas=(0.9, 0.95), fused=self.device == "cuda")
        self.step, self.seconds, self.total_steps, self.curve = 0, 0.0, None, []
        self.train_set, self.val_set = load_stories(
            os.path.join(args.data, "tokens.bin"), self.device, self.config.context)
        if args.resume:
            self.load()

    def autocast(self):
        if self.device == "cuda":
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return contextlib.nullcontext()

    @property
    def checkpoint(self):
        return os.path.join(self.args.data, "checkpoint.pt")

    def save(self):
        state = {"model": self.model.state_dict(), "average": self.average.state_dict(),
                 "optimizer": self.optimizer.state_dict(), "step": self.step, "curve": self.curve,
                 "seconds": self.seconds, "total_steps": self.total_steps}
        torch.save(state, self.checkpoint + ".new")
        os.replace(self.checkpoint + ".new", self.checkpoint)

    def load(self):
        state = torch.load(self.checkpoint, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        for name in ("step", "curve", "seconds", "total_steps"):
            setattr(self, name, state[name])

    @torch.no_grad()
    def validate(self, model, stories=None):
        """Mean loss over the validation stories, or over as many of `stories`."""
        was_training = model.training
        model.eval()
        rows = (stories or self.val_set).rows(np.arange(len(self.val_set.sizes)))
        total = 0.0
        for part in rows.split(32):
            with self.autocast():
                total += model(part[:, :-1].long(), part[:, 1:].long()).item() * len(part)
        model.train(was_training)
        return total / len(rows)

    def rate(self):
        """Linear warmup, then a cosine down to 2 % of the peak at the last step."""
        if self.step < self.args.warmup:
            return self.args.lr * (self.step + 1) / self.args.warmup
        length = max(1, self.total_steps - self.args.warmup)
        done = min(1.0, (self.step - self.args.warmup) / length)
        return self.args.lr * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))

    def weights(self):
        return {name: p.detach().float().cpu().numpy()
                for name, p in self.average.state_dict().items()}

    def write_outputs(self):
        out = self.args.out
        with open(os.path.join(out, "loss.csv"), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(self.curve)
        tokens = self.step * self.args.batch * self.config.context
        run = {"config": dataclasses.asdict(self.config), "parameters": self.parameters,
               "arguments": {k: v for k, v in vars(self.args).items() if k not in ("data", "out")},
               "steps": self.step, "total_steps": self.total_steps, "tokens": tokens,
               "text_tokens": len(self.train_set.ids), "seconds": round(self.seconds, 1),
               "torch": torch.__version__,
               "device": torch.cuda.get_device_name() if self.device == "cuda" else "cpu"}
        with open(os.path.join(out, "run.json"), "w", encoding="utf-8") as file:
            json.dump(run, file, indent=1)
        export.write_model(os.path.join(out, "model.gguf"), dataclasses.asdict(self.config),
                           self.vocabulary, self.weights())

    def record(self, train_loss, val_loss):
        tokens = self.step * self.args.batch * self.config.context
        epochs = tokens / len(self.train_set.ids)
        self.curve.append((self.step, tokens, round(epochs, 3), round(self.seconds, 1),
                           round(self.optimizer.param_groups[0]["lr"], 7), round(train_loss, 4),
                           "" if val_loss is None else round(val_loss, 4)))
        note = "" if val_loss is None else f"  val {val_loss:.4f}"
        print(f"step {self.step}/{self.total_steps}  epoch {epochs:.2f}  {self.seconds:.0f} s  "
              f"loss {train_loss:.4f}{note}", flush=True)

    def plan(self, step_s):
        """Fixes the number of steps from the time of one."""
        args = self.args
        left = args.total_minutes * 60 - (time.time() - START) - ENDING_S
        by_time = self.step + int(0.96 * left / step_s)
        rows = len(self.train_set.ids) / self.config.context
        by_text = int(args.epochs * rows / args.batch)
        self.total_steps = min(max(by_time, self.step + 1), by_text)
        if args.steps:
            self.total_steps = args.steps
        rate = args.batch * self.config.context / step_s
        print(f"{step_s * 1e3:.1f} ms per step, {rate / 1e6:.3f} M tokens/s; {by_time} steps fit the "
              f"time, {by_text} the epochs: {self.total_steps} steps", flush=True)

    def train(self):
        args = self.args
        deadline = START + args.minutes * 60 - ENDING_S
        step_model = torch.compile(self.model) if args.compile else self.model
        self.model.train()
        batches = self.train_set.batches(args.seed, args.batch, self.step)
        print(f"{self.parameters} parameters, {len(self.train_set.ids)} training tokens, "
              f"{len(self.val_set.ids)} validation tokens, ready at {time.time() - START:.0f} s",
              flush=True)
        mine = [p for p in self.model.parameters()]
        averaged = [p for p in self.average.parameters()]
        since, count = torch.zeros((), device=self.device), 0
        last_time, last_save, measured = time.time(), time.time(), None
        while self.total_steps is None or self.step < self.total_steps:
            if self.total_steps is None and self.step == MEASURE_FROM:
                since.item()
                measured = time.time()
            if self.total_steps is None and self.step == MEASURE_TO:
                since.item()
                self.plan((time.time() - measured) / (MEASURE_TO - MEASURE_FROM))
            elif args.steps:
                self.total_steps = args.steps
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate()
            rows = next(batches)
            with self.autocast():
                loss = step_model(rows[:, :-1], rows[:, 1:])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(mine, 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            keep = min(args.average, (self.step + 1) / (self.step + 10))
            torch._foreach_lerp_(averaged, [p.detach() for p in mine], 1 - keep)
            since += loss.detach()
            count += 1
            self.step += 1
            if self.step % args.log_every == 0 or self.step == self.total_steps:
                train_loss = since.item() / count
                if not math.isfinite(train_loss):
                    raise SystemExit(f"the loss is {train_loss} at step {self.step}")
                since.zero_()
                count = 0
                now = time.time()
                self.seconds += now - last_time
                last_time = now
                save = now - last_save > args.save_s or self.step == self.total_steps
                self.record(train_loss, self.validate(self.average) if save else None)
                if save:
                    self.save()
                    self.write_outputs()
                    last_save = time.time()
                if now > deadline:
                    break
        self.finish()

    def finish(self):
        self.save()
        self.write_outputs()
        print(f"validation loss: averaged weights {self.validate(self.average):.4f}, "
              f"last weights {self.validate(self.model):.4f}; averaged weights on as many training "
              f"stories {self.validate(self.average, self.train_set):.4f}", flush=True)
        weights = export.gguf_names(self.weights())
        names = sorted(weights)
        sizes = np.cumsum([weights[n].size for n in names])
        half = sizes[-1] / 2
        for part in (0, 1):
            chosen = {n: weights[n].astype(np.float16) for n, s in zip(names, sizes)
                      if (s > half) == bool(part)}
            np.savez(os.path.join(self.args.out, f"weights-{part}.npz"), **chosen)
        self.samples()
        done = self.step >= self.total_steps if self.total_steps else False
        print(f"{'finished' if done else 'stopped, continue with --resume'} at step {self.step} "
              f"after {time.time() - START:.0f} s", flush=True)

    @torch.no_grad()
    def samples(self):
        rows = [[spm.BOS] + (self.vocabulary.encode(p) if p else []) for p in PROMPTS]
        torch.manual_seed(self.args.seed)
        texts = []
        for row in rows:
            ids = torch.tensor([row], device=self.device)
            while ids.shape[1] < min(self.config.context, self.args.sample_tokens):
                with self.autocast():
                    logits = self.average(ids)[0, -1] / 0.7
                values, order = logits.sort(descending=True)
                probability = values.softmax(-1)
                probability[probability.cumsum(-1) - probability > 0.95] = 0
                chosen = order[torch.multinomial(probability, 1)]
                if chosen.item() == spm.EOS:
                    break
                ids = torch.cat((ids, chosen[None]), 1)
            texts.append(self.vocabulary.decode(ids[0].tolist()))
        text = "\n----\n".join(texts)
        with open(os.path.join(self.args.out, "samples.txt"), "w", encoding="utf-8") as file:
            file.write(text + "\n")
        print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--data", default="build/training")
    add("--out", default="build/training")
    add("--minutes", type=float, default=9, help="wall-clock limit of this call")
    add("--total-minutes", type=float, help="wall-clock time of the whole schedule")
    add("--epochs", type=float, default=20)
    add("--steps", type=int, help="run exactly this many steps")
    add("--resume", action="store_true")
    add("--batch", type=int, default=128, help="rows of one context each")
    add("--lr", type=float, default=2e-3)
    add("--warmup", type=int, default=300)
    add("--weight-decay", type=float, default=0.1)
    add("--dropout", type=float, default=0.1)
    add("--average", type=float, default=0.998, help="decay of the weight average")
    add("--seed", type=int, default=1)
    add("--log-every", type=int, default=100)
    add("--save-s", type=float, default=30)
    add("--sample-tokens", type=int, default=400)
    add("--no-compile", dest="compile", action="store_false")
    for name in ("dim", "layers", "heads", "kv_heads", "ffn", "context"):
        add("--" + name.replace("_", "-"), type=int)
    args = parser.parse_args()
    if args.warmup < MEASURE_TO:
        parser.error(f"--warmup must be at least {MEASURE_TO}")
    args.total_minutes = args.total_minutes or args.minutes
    os.makedirs(args.out, exist_ok=True)
    Trainer(args).train()


if __name__ == "__main__":
    main()
