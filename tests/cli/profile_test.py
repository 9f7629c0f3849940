"""profile_test.py PROGRAM SOURCE_DIR TEST_DATA [unittest arguments]: profile, plan, graph --svg and
bench --compare as a user meets them."""

import decimal
import json
import os
import random
import re
import unittest
import xml.etree.ElementTree

from browser import Browser
from support import STORIES, TINY, CliCase, main, run

FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "files")
SVG = "{http://www.w3.org/2000/svg}"


def check_trace(text):
    """What is wrong with a trace, as a list of texts; its slices by lane."""
    problems, lanes, named = [], {}, set()
    try:
        data = json.loads(text, parse_float=decimal.Decimal)
    except ValueError as error:
        return [f"no JSON: {error}"], {}
    for i, event in enumerate(data["traceEvents"]):
        lane = (event.get("pid"), event.get("tid"))
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                named.add(lane)
            continue
        if event["ph"] != "X":
            problems.append(f"event {i} is of phase {event['ph']}")
            continue
        if not event.get("name") or event["ts"] < 0 or event["dur"] < 0:
            problems.append(f"event {i} lacks a name or a time")
        lanes.setdefault(lane, []).append(event)
    for lane, slices in lanes.items():
        if lane not in named:
            problems.append(f"lane {lane} has no name")
        slices.sort(key=lambda e: (e["ts"], e["ts"] + e["dur"]))
        for a, b in zip(slices, slices[1:]):
            if a["ts"] + a["dur"] > b["ts"]:
                problems.append(f"lane {lane}: {a['name']} at {a['ts']} overlaps {b['name']}")
    return problems, lanes


class ProfileTest(CliCase):
    def test_json_is_consistent(self):
        data = self.json("profile", "-m", TINY, "-n", 5, "--prefill", 24, "-t", 2, "--json")
        self.assertGreater(data["roof_bytes_per_second"], 1e8)
        self.assertEqual(data["dropped"], 0)
        self.assertEqual([p["name"] for p in data["passes"]], ["prefill", "decode"])
        prefill, decode = data["passes"]
        self.assertEqual((decode["passes"], decode["tokens"], decode["rows"]), (5, 5, 1))
        self.assertEqual((prefill["tokens"], prefill["rows"]), (24, 16))
        graph = self.json("graph", "-m", TINY, "--json")
        for key in ("dispatches", "barriers", "levels", "edges", "order",
                    "edges_issued"):
            self.assertEqual(decode[key], graph[key])
        self.assertEqual(sum(k["count"] for k in decode["kernels"]), 5 * decode["dispatches"])
        for p in data["passes"]:
            self.assertEqual(p["bytes"], sum(k["bytes"] for k in p["kernels"]))
            self.assertLessEqual(p["busy_us"], p["total_us"] + 0.01)
            self.assertAlmostEqual(sum(p["samples_us"]), p["total_us"], places=2)
            self.assertIn(p["median_us"], p["samples_us"])
            totals = [k["total_us"] for k in p["kernels"]]
            self.assertEqual(totals, sorted(totals, reverse=True))
            for k in p["kernels"]:
                self.assertLessEqual(k["min_us"] * k["count"], k["total_us"] * 1.0001 + 0.01)
                self.assertGreaterEqual(k["max_us"] * k["count"] * 1.0001 + 0.01, k["total_us"])
                self.assertAlmostEqual(k["time_share"] * p["total_us"], k["total_us"], places=3)
                if k["total_us"] > 0 and k["bytes"] > 0:
                    rate = k["bytes"] / k["total_us"] * 1e6
                    self.assertAlmostEqual(k["bytes_per_second"] / rate, 1.0, places=6)
                    self.assertEqual(k["in_cache"], rate > data["roof_bytes_per_second"])
                    share = None if k["in_cache"] else rate / data["roof_bytes_per_second"]
                    self.assertEqual(k["roof_share"] is None, share is None)
                    self.assertAlmostEqual(k["roof_share"] or 0, share or 0, places=6)
        self.assertRegex(data["verdict"], r"^decode: \d+ % of the time ")
        self.assertTrue(any(k["fusion"] for k in decode["kernels"]))

    def test_table(self):
        text = self.text("profile", "-m", TINY, "-n", 3, "--roof", "100")
        verdict, nothing, *lines = text.splitlines()
        self.assertRegex(verdict, r"^decode: \d+ % of the time .+\.$")
        self.assertEqual(nothing, "")
        self.assertRegex(lines[0], r"^decode: 3 passes, \d+ dispatches and \d+ edges each, "
                                   r"median [0-9.]+ us, [0-9.]+ tokens/s$")
        self.assertRegex(lines[1], r"^[0-9.]+ GB/s, [0-9.]+ % of 100\.0 GB/s \(given with --roof\)$")
        self.assertEqual(lines[2].split(), ["kernel", "count", "us", "us", "each", "GB/s", "time",
                                            "%", "roof", "%"])
        self.assertEqual(len({len(line) for line in lines[2:-1]}), 1)
        self.assertTrue(lines[-1].startswith("between kernels "))

    def test_the_verdict(self):
        def told(*args):
            return self.text("profile", "-m", TINY, "-n", 3, *args).splitlines()[0]

        # The same times, beside memory that is slow, or faster than any.
        self.assertIn("q8_0 products, from caches", told("--roof", "0.01"))
        self.assertIn("arithmetic is the limit, not memory", told("--roof", "1000000"))
        self.assertIn("without vector instructions", told("--cpu-features", "base"))

    def test_nothing_is_faster_than_memory(self):
        text = self.text("profile", "-m", TINY, "-n", 3, "--roof", "0.01")
        self.assertIn("in cache, memory gives 0.0 GB/s", text)
        rows = [line.split() for line in text.splitlines() if line.startswith("matmul")]
        self.assertTrue(all(row[-1] == "cache" for row in rows), text)

    def test_trace(self):
        for threads, lanes in ((1, 1), (2, 2)):
            path = self.path("trace.json")
            self.ok("profile", "-m", TINY, "-n", 6, "--prefill", 16, "-t", threads, "--trace", path)
            problems, by_lane = check_trace(self.read("trace.json"))
            self.assertEqual(problems, [])
            passes = by_lane.pop((1, 0))
            labels = [e["name"] for e in passes]
            self.assertEqual(labels.count("decode"), 6)
            self.assertEqual(labels.count("prefill"), 1)
            self.assertLessEqual(len(by_lane), lanes)
            # Every dispatch of every pass was worked on by somebody, within its pass.
            wanted = sum(e["args"]["dispatches"] for e in passes)
            seen = set()
            for slices in by_lane.values():
                for e in slices:
                    home = [i for i, p in enumerate(passes) if p["ts"] <= e["ts"] and
                            e["ts"] + e["dur"] <= p["ts"] + p["dur"]]
                    self.assertEqual(len(home), 1, e)
                    seen.add((home[0], e["args"]["dispatch"]))
            self.assertEqual(len(seen), wanted)

    def test_the_checker_of_traces_finds_errors(self):
        name = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "worker 0"}}

        def problems(*slices, lanes=(name,)):
            events = [{"ph": "X", "name": "k", "pid": 1, "tid": 1, "ts": ts, "dur": dur}
                      for ts, dur in slices]
            return check_trace(json.dumps({"traceEvents": [*lanes, *events]}))[0]

        self.assertEqual(problems((0, 1.5), (1.5, 1), (2.5, 0)), [])
        self.assertIn("overlaps", problems((0, 1.501), (1.5, 1))[0])
        self.assertIn("overlaps", problems((0, 9), (1, 1))[0])
        self.assertIn("no name", problems((0, 1), lanes=())[0])
        self.assertIn("time", problems((-1, 1))[0])
        self.assertIn("no JSON", check_trace("{")[0][0])

    def test_bad_input(self):
        self.fails(2, "profile", "-m", TINY, "-n", 0, says=("nothing to profile",))
        self.fails(2, "profile", "-m", TINY, "--prefill", 1, says=("--prefill",))
        self.fails(2, "profile", "-m", TINY, "--roof", "fast", says=("--roof",))
        self.fails(1, "profile", "-m", TINY, "-n", 8, "-c", 4, says=("9 tokens", "4"))
        self.fails(1, "profile", "-m", TINY, "-n", 1, "--trace", self.path("no/t.json"),
                   says=("no/t.json",))


class PageTest(CliCase):
    """The page in a browser."""

    VIEWS = ("kernels", "timeline", "graph", "memory", "change")

    @classmethod
    def setUpClass(cls):
        cls.holder = Browser.open()
        cls.browser = cls.holder.__enter__()
        cls.addClassCleanup(cls.holder.__exit__, None, None, None)
        if cls.browser is None:
            raise unittest.SkipTest("there is no Chromium")

    def setUp(self):
        super().setUp()
        self.ok("profile", "-m", "synthetic:tiny-qwen3:q4_0", "-n", 4, "--prefill", 32, "-t", 2,
                "--html", self.path("page.html"))

    def open(self, width, dark=False):
        page = self.browser.page(width, 900, dark)
        page.load(self.path("page.html"), "document.documentElement.dataset.drawn")
        return page

    def drawn(self, page):
        return json.loads(page.value("document.documentElement.dataset.drawn"))

    def colors(self, page, canvas):
        return page.value(f"""(() => {{
          const c = document.getElementById("{canvas}"), seen = new Set();
          const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
          for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 250) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
          return seen.size; }})()""")

    def test_all_views_are_drawn(self):
        graph = self.json("graph", "-m", "synthetic:tiny-qwen3:q4_0", "--json")
        for width in (1280, 400):
            for dark in (False, True):
                with self.subTest(width=width, dark=dark):
                    page = self.open(width, dark)
                    drawn = self.drawn(page)
                    self.assertEqual(sorted(drawn), sorted(self.VIEWS))
                    self.assertGreaterEqual(drawn["timeline"], graph["dispatches"])
                    self.assertGreater(drawn["memory"], 3)
                    for canvas in ("timeline-canvas", "memory-canvas"):
                        self.assertGreater(self.colors(page, canvas), 4)
                    page.value("document.getElementById('fold').click()")
                    self.assertEqual(self.drawn(page)["graph"], graph["dispatches"])
                    self.assertEqual(page.value("document.querySelectorAll('#graph svg .edge').length"),
                                     graph["edges"])
                    self.assertEqual(
                        page.value("document.querySelectorAll('#graph svg .level').length"),
                        graph["levels"] - 1)
                    # Nothing sticks out, nothing is fetched, nothing fails.
                    self.assertLessEqual(page.value("document.documentElement.scrollWidth"), width)
                    self.assertEqual([r for r in page.requests if r != "data:,"],
                                     ["file://" + self.path("page.html")])
                    self.assertEqual(page.errors, [])
                    background = page.value("getComputedStyle(document.body).backgroundColor")
                    light = sum(int(x) for x in background[4:-1].split(",")) > 384
                    self.assertEqual(light, not dark)

    def test_keyboard(self):
        page = self.open(1280)
        info = lambda view: page.value(f"document.getElementById('{view}-info').textContent")
        focus = lambda: page.value("document.activeElement.id || document.activeElement.className.baseVal || "
                                   "document.activeElement.tagName")
        reached, limit = [], 80
        while len(reached) < limit and "memory-canvas" not in reached:
            page.press("Tab")
            reached.append(focus())
            if reached[-1] == "timeline-canvas":
                before = info("timeline")
                page.press("ArrowRight", 3)
                self.assertNotEqual(info("timeline"), before)
                self.assertIn("GB/s", info("timeline"))
                all_bars = self.drawn(page)["timeline"]
                page.press("+", 4)
                self.assertLess(self.drawn(page)["timeline"], all_bars)
                page.press("Escape")
                self.assertEqual(self.drawn(page)["timeline"], all_bars)
            elif reached[-1].startswith("node"):
                self.assertIn("step 0", info("graph"))
                page.press("ArrowDown", 2)
                self.assertIn("step 2", info("graph"))
            elif reached[-1] == "memory-canvas":
                page.press("ArrowRight")
                self.assertIn("written by step", info("memory"))
        for wanted in ("theme", "timeline-canvas", "zoom-in", "fold", "memory-canvas"):
            self.assertIn(wanted, reached)
        # Enter on a row of the table marks the kernel.
        page.value("document.querySelector('#rows tr').focus()")
        page.press("Enter")
        self.assertEqual(page.value("document.querySelectorAll('#rows tr.on').length"), 1)
        page.press("d")
        self.assertEqual(page.value("document.documentElement.dataset.theme"), "dark")
        page.press("p")
        self.assertIn("prefill", page.value(
            "document.querySelector('#passes [aria-pressed=true]').textContent"))
        self.assertEqual(page.errors, [])

    def test_hostile_names(self):
        # A model's path is text, whatever is in it.
        os.mkdir(self.path("<"))
        model = self.path("</script><img src=x onerror=fail()>&\"'.gguf")
        os.symlink(STORIES, model)
        self.ok("profile", "-m", model, "-n", 1, "--html", self.path("page.html"))
        page = self.open(1280)
        self.assertTrue(page.value("document.title").startswith("onepass profile: llama"))
        self.assertIn(model, page.value("document.getElementById('what').textContent"))
        self.assertEqual(page.value("document.images.length"), 0)
        self.assertEqual(page.errors, [])


class PlanTest(CliCase):
    def save(self, name, *more):
        self.ok("plan", "save", "-m", TINY, "--out", self.path(name), *more)
        return json.loads(self.read(name))

    def test_show(self):
        graph = self.json("graph", "-m", TINY, "--json")
        text = self.text("plan", "show", "-m", TINY)
        lines = text.splitlines()
        self.assertIn(f"{graph['dispatches']} dispatches in {graph['levels']} levels, "
                      f"{graph['edges']} edges ({graph['edges_issued']} edges issued)", lines[1])
        self.assertEqual(len(lines), 3 + graph["dispatches"])
        self.assertEqual([int(line.split()[0]) for line in lines[3:]], list(range(graph["dispatches"])))
        self.assertEqual(int(lines[-1].split()[1]), graph["levels"] - 1)
        self.assertRegex(text, r"w:[0-9a-f]+\+[0-9a-f]+")
        self.assertEqual(self.json("plan", "show", "-m", TINY, "--json"), self.save("a.json"))

    def test_files_without_what_was_issued(self):
        plan = self.save("a.json")
        self.assertEqual(plan["issued"], f"{sum(len(s['after']) for s in plan['steps'])} edges")
        del plan["issued"]
        older = self.write("b.json", json.dumps(plan))
        self.ok("plan", "diff", self.path("a.json"), older, "--exit-code")

    def test_saved_plans_are_sound(self):
        for more in ((), ("--no-fuse",), ("--prefill", 64), ("--policy", "greedy")):
            plan = self.save("a.json", *more)
            reached = []  # all that each step comes after
            for i, step in enumerate(plan["steps"]):
                reached.append(set().union(*({p} | reached[p] for p in step["after"])))
                for p in step["after"]:
                    self.assertLess(plan["steps"][p]["level"], step["level"])
                for lo, hi, write in step["arena"]:
                    self.assertLess(lo, hi)
                    self.assertLessEqual(hi, plan["arena_bytes"])
                    for k in range(i):  # bytes of the arena order the steps that share them
                        for lo2, hi2, write2 in plan["steps"][k]["arena"]:
                            if lo < hi2 and lo2 < hi and (write or write2):
                                self.assertIn(k, reached[i])

    def test_diff(self):
        self.save("a.json")
        self.save("b.json", "--no-fuse")
        a, b = self.path("a.json"), self.path("b.json")
        self.assertEqual(self.text("plan", "diff", a, a, "--exit-code"), "the plans are the same\n")
        text = self.text("plan", "diff", a, b)
        self.assertIn("dispatches", text)
        self.assertRegex(text, r"(?m)^- +\d+  level \d+ +matmul_q8_0_\S*\+gate")
        self.assertRegex(text, r"(?m)^\+ +\d+  level \d+ +")
        self.ok("plan", "diff", a, b, "--exit-code", code=1)
        data = self.json("plan", "diff", a, b, "--json")
        self.assertFalse(data["same"])
        x, y = data["dispatches"]
        minus = sum(s["side"] == "before" for s in data["steps"])
        self.assertEqual(y - x, len(data["steps"]) - 2 * minus)
        changed = sum(y - x for x, y in data["kernels"].values())
        self.assertEqual(changed, y - x)

    def test_diff_is_the_shortest(self):
        def plan(name, kernels):
            steps = [{"kernel": k, "index": i, "level": i, "tiles": 1, "bytes": 0, "flops": 0,
                      "after": [i - 1] if i else [], "arena": []} for i, k in enumerate(kernels)]
            return self.write(name, json.dumps({
                "onepass_plan": 1, "version": "0", "model": "m", "device": "cpu", "policy": "exact",
                "rows": 1, "fuse": True, "arena_bytes": 0, "scratch_bytes": 0,
                "persistent_bytes": 0, "fused": {}, "steps": steps}))

        def common(a, b):
            row = [0] * (len(b) + 1)
            for x in a:
                last = row
                row = [0]
                for j, y in enumerate(b):
                    row.append(last[j] + 1 if x == y else max(row[j], last[j + 1]))
            return row[-1]

        chance = random.Random(4)
        for _ in range(12):
            a, b = (chance.choices("abc", k=chance.randrange(12)) for _ in range(2))
            data = self.json("plan", "diff", plan("a", a), plan("b", b), "--json")
            self.assertEqual(len(data["steps"]), len(a) + len(b) - 2 * common(a, b))
            self.assertEqual(data["same"], a == b)
            gone = {s["position"] for s in data["steps"] if s["side"] == "before"}
            new = {s["position"] for s in data["steps"] if s["side"] == "after"}
            self.assertEqual([k for i, k in enumerate(a) if i not in gone],
                             [k for i, k in enumerate(b) if i not in new])

    def test_bad_files(self):
        good = json.dumps(self.save("a.json"))
        a = self.path("a.json")
        self.fails(1, "plan", "diff", a, self.path("none.json"), says=("none.json",))
        self.fails(1, "plan", "diff", self.write("b", "[]"), a, says=("b: plan", "plan save"))
        for old, new, says in (('"onepass_plan": 1', '"onepass_plan": 9', "format 9"),
                               ('"level": 1', '"level": 7', "level"),
                               ('"after": [0]', '"after": [99999]', "not before it"),
                               ('"arena_bytes": ', '"arena_bytes": -', "arena_bytes"),
                               ('"kernel": "', '"kernel": 5, "x": "', "kernel")):
            self.assertIn(old, good)
            self.fails(1, "plan", "diff", a, self.write("b", good.replace(old, new, 1)), says=(says,))
        chance = random.Random(1)
        for _ in range(25):
            at = chance.randrange(len(good))
            text = good[:at] if chance.random() < 0.4 else (
                good[:at] + chance.choice('0"{[]},:9e-\\') + good[at + 1:])
            result = run("plan", "diff", a, self.write("b", text))
            self.assertIn(result.returncode, (0, 1), result.stderr)


class PictureTest(CliCase):
    def test_svg(self):
        for more in ((), ("--prefill", 32), ("--no-fuse",)):
            out = self.path("graph.svg")
            graph = self.json("graph", "-m", "synthetic:tiny-qwen3moe:q4_0", "--svg", out, "--unfolded",
                              "--json", *more)
            root = xml.etree.ElementTree.parse(out).getroot()
            self.assertEqual(root.tag, SVG + "svg")
            of = lambda tag, name: [e for e in root.iter(SVG + tag)
                                    if name in e.get("class", "").split()]
            boxes = of("rect", "box")
            self.assertEqual(len(boxes), graph["dispatches"])
            self.assertEqual(len(of("line", "level")), graph["levels"] - 1)
            self.assertEqual(len(of("path", "edge")), graph["edges"])
            self.assertEqual(bool(of("rect", "fused")), graph["fused"] != {})
            # Boxes lie in the picture, side by side.
            width, height = int(root.get("width")), int(root.get("height"))
            places = [tuple(int(b.get(k)) for k in ("x", "y", "width", "height")) for b in boxes]
            self.assertEqual(len({p[0] for p in places}), graph["levels"])
            for i, (x, y, w, h) in enumerate(places):
                self.assertTrue(x >= 0 and y >= 0 and x + w <= width and y + h <= height)
                for x2, y2, _, _ in places[:i]:
                    self.assertTrue(x != x2 or abs(y - y2) >= h)
            self.assertNotIn("href", self.read("graph.svg"))
        self.fails(1, "graph", "-m", TINY, "--svg", self.path("no/g.svg"), says=("no/g.svg",))

    def test_equal_layers_are_folded(self):
        out = self.path("graph.svg")
        graph = self.json("graph", "--svg", out, "--json")  # a story model of eight layers
        root = xml.etree.ElementTree.parse(out).getroot()
        times = next(e.text for e in root.iter(SVG + "text") if e.get("class") == "times")
        n, period = map(int, re.fullmatch(r"(\d+) \u00d7 the same (\d+) steps", times).groups())
        boxes = [e for e in root.iter(SVG + "rect") if "box" in e.get("class").split()]
        self.assertGreaterEqual(n, 6)
        self.assertEqual(period, graph["dispatches_per_layer"])
        self.assertEqual(len(boxes), graph["dispatches"] - (n - 1) * period)
        width, height = int(root.get("width")), int(root.get("height"))
        self.assertGreater(width, 4 * height)
        for box in boxes:
            self.assertLessEqual(int(box.get("x")) + int(box.get("width")), width)
            self.assertLessEqual(int(box.get("y")) + int(box.get("height")), height)


class OldFilesTest(CliCase):
    """Files that the build of commit 4f56e22 wrote, of synthetic:tiny:q8_0, are still read."""

    def old(self, name):
        path = os.path.join(FILES, "4f56e22-" + name)
        with open(path, encoding="utf-8") as file:
            return path, file.read()

    def test_plan(self):
        path, text = self.old("plan.json")
        before = json.loads(text)
        self.assertTrue(self.json("plan", "diff", path, path, "--json")["same"])
        after = dict(before, steps=before["steps"][:-1])
        data = self.json("plan", "diff", path, self.write("after", json.dumps(after)), "--json")
        self.assertEqual(data["dispatches"], [len(before["steps"]), len(after["steps"])])
        self.assertEqual([(s["side"], s["kernel"]) for s in data["steps"]],
                         [("before", before["steps"][-1]["kernel"])])
        self.ok("plan", "save", "-m", TINY, "--cpu-features", "base", "--out", self.path("now"))
        now = json.loads(self.read("now"))
        data = self.json("plan", "diff", path, self.path("now"), "--json")
        self.assertEqual(data["dispatches"], [len(before["steps"]), len(now["steps"])])

    def test_bench(self):
        path, text = self.old("bench.json")
        lines_path, lines = self.old("bench.jsonl")
        before = {row["test"]: row["samples_ns"] for row in json.loads(text)}
        after = {row["test"]: row["samples_ns"] for row in map(json.loads, lines.splitlines())}
        self.assertEqual(list(before), ["pp16", "tg4"])
        rows = self.json("bench", "--compare", path, "--with", lines_path, "-o", "json", "--tolerance", 99)
        self.assertEqual([row["test"] for row in rows], list(before))
        for row in rows:
            fast = [sum(sorted(times[row["test"]])[:2]) for times in (before, after)]  # of three
            self.assertAlmostEqual(row["speed_ratio"], fast[0] / fast[1])


class CompareTest(CliCase):
    def stored(self, name, **tests):
        rows = [{"test": test, "model_type": "m", "backend": "CPU", "device": "d", "type_kv": "f16",
                 "n_threads": 2, "n_prompt": 0, "n_gen": 128, "samples_ns": times}
                for test, times in tests.items()]
        return self.write(name, json.dumps(rows))

    @staticmethod
    def times(mean, n, seed, noise=0.01):
        chance = random.Random(seed)
        return [mean * (1 + chance.gauss(0, noise)) for _ in range(n)]

    def compare(self, before, now, *more, code=0):
        return self.json("bench", "--compare", before, "--with", now, "-o", "json", *more,
                         code=code)

    def test_verdicts(self):
        a = self.stored("a", tg128=self.times(1e6, 20, 1), pp512=self.times(2e6, 20, 2))
        slow = self.stored("slow", tg128=self.times(1.05e6, 20, 3), pp512=self.times(2e6, 20, 4))
        fast = self.stored("fast", tg128=self.times(0.9e6, 20, 5))
        rows = self.compare(a, slow, code=1)
        self.assertEqual([r["verdict"] for r in rows], ["slower", "no difference"])
        self.assertLess(rows[0]["speed_ratio_high"], 1.0)
        self.assertEqual([r["verdict"] for r in self.compare(a, fast)], ["faster"])
        self.assertEqual(self.compare(a, a)[0]["speed_ratio"], 1.0)
        rows = self.compare(a, slow, "--tolerance", 8)
        self.assertEqual(rows[0]["verdict"], "no difference")
        for output in ("md", "csv"):
            text = self.text("bench", "--compare", a, "--with", slow, "-o", output, code=1)
            self.assertIn("slower", text)

    def test_interval(self):
        a, b = self.times(1e6, 15, 6, 0.04), self.times(1.02e6, 15, 7, 0.04)
        row = self.compare(self.stored("a", t=a), self.stored("b", t=b), "--tolerance", 50)[0]
        fast = lambda times: sum(sorted(times)[:8])  # the faster half
        self.assertAlmostEqual(row["speed_ratio"], fast(a) / fast(b), places=9)
        chance = random.Random(8)
        ratios = sorted(fast(chance.choices(a, k=15)) / fast(chance.choices(b, k=15))
                        for _ in range(10000))
        width = ratios[9750] - ratios[250]
        self.assertAlmostEqual(row["speed_ratio_low"], ratios[250], delta=0.1 * width)
        self.assertAlmostEqual(row["speed_ratio_high"], ratios[9750], delta=0.1 * width)
        again = self.compare(self.path("a"), self.path("b"), "--tolerance", 50)[0]
        self.assertEqual(row, again)

    def test_runs_in_turns(self):
        # Runs differ more than the times in them: pooled, the difference would look certain.
        def files(letter, factor):
            return ",".join(self.stored(f"{letter}{i}", t=self.times(mean * factor, 10, i, 0.001))
                            for i, mean in enumerate((1.0e6, 1.1e6, 0.9e6)))

        rows = self.compare(files("a", 1.0), files("b", 1.02))
        self.assertEqual(rows[0]["verdict"], "no difference")
        self.assertGreater(rows[0]["speed_ratio_high"] - rows[0]["speed_ratio_low"], 0.1)

    def test_run_now(self):
        bench = ("bench", "-m", TINY, "-p", 4, "-n", 3, "-r", 3, "-t", 1)
        before = self.write("a", self.text(*bench, "-o", "json"))
        rows = self.json(*bench, "-o", "json", "--compare", before, "--tolerance", 100)
        for r in rows:
            self.assertLessEqual(r["speed_ratio_low"], r["speed_ratio"])
            self.assertLessEqual(r["speed_ratio"], r["speed_ratio_high"])
            self.assertGreater(r["baseline_ts"], 0)
            self.assertIn(r["verdict"], ("faster", "no difference"))
        text = self.text(*bench, "--compare", before, "--tolerance", 100)
        self.assertIn("95 % interval", text)
        # Ten thousand times as fast as possible.
        rows = json.loads(self.read("a"))
        for r in rows:
            r["samples_ns"] = [x / 1e4 for x in r["samples_ns"]]
        self.ok(*bench, "--compare", self.write("b", json.dumps(rows)), code=1)

    def test_bad_input(self):
        a = self.stored("a", t=[1.0, 2.0])
        self.fails(2, "bench", "--with", a, says=("--with",))
        self.fails(1, "bench", "--compare", self.path("none"), says=("none",))
        self.fails(1, "bench", "--compare", a, "--with", self.stored("b", u=[1.0]), says=("no test",))
        self.fails(1, "bench", "--compare", self.write("c", "{}"), says=("bench -o json",))
        self.fails(1, "bench", "--compare", self.stored("d", t=[]), says=("samples_ns",))
        self.fails(1, "bench", "--compare", self.stored("e", t=[0]), says=("above 0",))
        self.fails(1, "bench", "--compare", self.write("f", "[]"), says=("no test",))


class HelpTest(CliCase):
    def test_examples(self):
        for command in (("profile",), ("plan",), ("plan", "show"), ("plan", "save"),
                        ("plan", "diff"), ("graph",), ("bench",)):
            self.assertIn(f"\n  onepass {' '.join(command)} ", self.text(*command, "--help"))

    def test_examples_run(self):
        self.ok("profile", "-n", "2", "--html", self.path("p.html"))
        self.ok("graph", "--svg", self.path("g.svg"))
        os.chdir(self.folder)
        lines = [line.split()[1:] for line in self.text("plan", "--help").splitlines()
                 if line.startswith("  onepass ")]
        self.assertEqual(len(lines), 4)
        for line in lines:
            self.ok(*line)


if __name__ == "__main__":
    main()
