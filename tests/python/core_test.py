"""core_test.py SOURCE_DIR [unittest arguments]: devices, arrays, recorded passes."""

import gc
import inspect
import os
import re
import subprocess
import sys
import threading
import typing
import unittest
import weakref

import support
import numpy as np
import onepass
from onepass import _library


class DeviceTest(unittest.TestCase):
    def test_devices_are_listed_with_reasons(self):
        infos = onepass.devices()
        cpu = [info for info in infos if info.name == "cpu"]
        self.assertEqual(len(cpu), 1)
        self.assertTrue(cpu[0].available)
        for info in infos:
            self.assertEqual(info.available, info.reason == "", info)
            self.assertEqual((info.unified_memory, info.memory_bytes, info.compute_units),
                             (None, None, None))  # of opened devices only

    def test_opened_device_tells_what_it_is(self):
        device = onepass.Device("cpu", threads=2)
        self.assertEqual(device.info.compute_units, 2)
        self.assertGreater(device.info.memory_bytes, 0)
        self.assertTrue(device.info.unified_memory)
        self.assertEqual(repr(device), "onepass.Device('cpu')")
        device.wait()

    def test_unknown_device_is_an_error(self):
        with self.assertRaises(onepass.Error) as caught:
            onepass.Device("toaster")
        self.assertEqual(caught.exception.code, "not_found")
        self.assertIn("toaster", caught.exception.message)

    def test_threads_that_do_not_fit_are_errors(self):
        for threads in (-1, 2**32, 2**40):
            with self.assertRaises(ValueError) as caught:
                onepass.Device("cpu", threads=threads)
            self.assertEqual(str(caught.exception),
                             f"threads is {threads}, expected 0 to 4294967295")
        with self.assertRaises(TypeError) as caught:
            onepass.Device("cpu", threads=1.5)
        self.assertEqual(str(caught.exception), "threads is 1.5, expected an integer, got float")

    def test_versions(self):
        self.assertEqual(onepass.__version__, onepass.version())
        self.assertRegex(onepass.version(), r"^\d+\.\d+\.\d+$")
        self.assertEqual(os.path.realpath(onepass.library_path()),
                         os.path.realpath(os.environ["ONEPASS_LIBRARY"]))


class HeaderTest(unittest.TestCase):
    """The declarations here and in onepass.h are the same."""

    def setUp(self):
        with open(os.path.join(support.SOURCE_DIR, "include", "onepass", "onepass.h"),
                  encoding="utf-8") as file:
            self.text = re.sub(r"//[^\n]*", "", file.read())

    def test_every_function_is_known(self):
        header = set(re.findall(r"ONEPASS_API [^(;]*?onepass_(\w+)\(", self.text))
        self.assertEqual(header, set(_library.FUNCTIONS) | set(_library.OTHERS))

    def test_functions_have_as_many_arguments(self):
        for name, arguments in _library.FUNCTIONS.items():
            match = re.search(rf"onepass_{name}\(([^)]*)\);", self.text)
            self.assertEqual(len(match.group(1).split(",")), len(arguments), name)

    def test_structs_have_the_same_fields(self):
        structs = {"device_info": _library.DeviceInfoStruct, "device_options": _library.DeviceOptions,
                   "tensor": _library.TensorStruct, "op_options": _library.OpOptions,
                   "op_info": _library.OpInfoStruct, "plan_options": _library.PlanOptions,
                   "plan_info": _library.PlanInfoStruct, "model_options": _library.ModelOptions,
                   "model_info": _library.ModelInfoStruct, "sequence_options": _library.SequenceOptions,
                   "chat_options": _library.ChatOptions,
                   "piece": _library.PieceStruct, "generate_options": _library.GenerateOptions,
                   "generate_report": _library.GenerateReport}
        found = dict(re.findall(r"typedef struct onepass_(\w+) \{(.*?)\}", self.text, re.DOTALL))
        self.assertEqual(set(found), set(structs))
        widths = {"size_t": 8, "uint64_t": 8, "uint32_t": 4, "float": 4, "onepass_dtype": 4, "onepass_stop": 4,
                  "onepass_progress_fn": 8, "onepass_piece_fn": 8}
        for name, body in found.items():
            fields = []
            for declaration in body.split(";"):
                match = re.match(r"\s*(?:const )?(\w+)(\*)? (\w+)(?:\[(\d+)\])?\s*$", declaration)
                if match:
                    kind, pointer, field, count = match.groups()
                    fields.append((field, (8 if pointer else widths[kind]) * int(count or 1)))
            ours = [(field[0], getattr(structs[name], field[0]).size) for field in structs[name]._fields_]
            self.assertEqual(fields, ours, name)


class ArrayTest(unittest.TestCase):
    def setUp(self):
        self.device = onepass.Device("cpu", threads=2)

    def test_numpy_is_a_view(self):
        array = self.device.array(np.arange(6.0).reshape(2, 3))
        view = array.numpy()
        self.assertEqual((view.dtype, view.shape), (np.float32, (2, 3)))
        view[1, 2] = 50
        self.assertEqual(array.numpy()[1, 2], 50)
        self.assertEqual(view.ctypes.data, array.numpy().ctypes.data)

    def test_views_keep_the_memory(self):
        array = self.device.array(np.arange(100000.0))
        buffer = weakref.ref(array._buffer)
        view = array.numpy()[1000:]
        del array
        gc.collect()
        self.assertIsNotNone(buffer())
        others = [self.device.array(np.full(100000, 7.0)) for _ in range(4)]
        np.testing.assert_array_equal(view, np.arange(1000.0, 100000.0))
        del view, others
        gc.collect()
        self.assertIsNone(buffer())

    def test_types(self):
        for kind in (np.float32, np.float16, np.uint8, np.uint16, np.uint32, np.int32):
            values = np.arange(12).astype(kind)
            array = self.device.array(values)
            self.assertEqual(array.numpy().dtype, kind)
            np.testing.assert_array_equal(array.numpy(), values)
        self.assertEqual(self.device.array([1, 2]).dtype, "i32")
        self.assertEqual(self.device.array([1.5]).dtype, "f32")
        self.assertEqual(self.device.zeros((2, 4), "bf16").numpy().dtype, np.uint16)
        self.assertEqual(self.device.zeros((2, 64), "q8_0").numpy().shape, (2 * 2 * 34,))
        with self.assertRaises(TypeError):
            self.device.array(np.array(["a"]))
        with self.assertRaises(onepass.Error):
            self.device.zeros((2, 33), "q8_0")
        with self.assertRaises(ValueError):
            self.device.zeros((1, 1, 1, 1, 1))
        for shape in (-1, (2, 2**32), np.array([-3])):
            with self.assertRaisesRegex(ValueError, r"shape\[\d\] is -?\d+, expected 0 to 429"):
                self.device.zeros(shape)
        with self.assertRaises(TypeError):
            self.device.zeros((2.5,))
        self.assertEqual(self.device.zeros(np.int64(3)).shape, (3,))

    def test_values_that_do_not_fit_are_errors(self):
        big = np.float32(2**31)  # what float32 makes of int32's largest number
        for values, dtype, limit, got in (
                (np.array([1, 2**40]), None, "2147483647", "1099511627776"),
                ([-2**31 - 1], None, "-2147483648", "-2147483649"),
                ([-1], np.uint32, "0 to 4294967295", "-1"),
                ([2**70], np.int32, "2147483647", str(2**70)),
                ([[1, 256]], np.uint8, "255", "256"),
                (np.array([big]), np.int32, "2147483647", "2147483648.0"),
                ([0.0, np.nan], np.int32, "2147483647", "nan"),
                ([1.0, -1e300], None, "3.40282", "-1e+300"),
                (np.array(1e39), None, "3.40282", "1e+39"),
                (np.array([1e5], np.float32), np.float16, "65504", "100000.0"),
                ([70000], np.float16, "65504", "70000")):
            with self.assertRaises(ValueError) as caught:
                self.device.array(values, dtype)
            self.assertRegex(str(caught.exception), rf"^onepass.Array\(\w+, .*{limit}.*, got ")
            self.assertTrue(str(caught.exception).endswith(f"got {got}"), caught.exception)
        array = self.device.zeros(2, np.uint8)
        with self.assertRaises(ValueError):
            array.write([0, 300])
        np.testing.assert_array_equal(array.numpy(), [0, 0])

    def test_values_at_the_ends_of_types_fit(self):
        for kind in (np.uint8, np.uint16, np.uint32, np.int32):
            ends = [np.iinfo(kind).min, np.iinfo(kind).max]
            np.testing.assert_array_equal(self.device.array(ends, kind).numpy(), ends)
        values = self.device.array([np.inf, -np.inf, np.nan, 3.4028235e38, 1e-300]).numpy()
        np.testing.assert_array_equal(
            values, np.array([np.inf, -np.inf, np.nan, np.finfo(np.float32).max, 0]))
        self.assertEqual(self.device.array(2.5).numpy(), 2.5)

    def test_write_and_reshape(self):
        array = self.device.zeros((2, 8))
        array.write(np.arange(16.0).reshape(2, 8)[:, ::-1])  # not contiguous
        np.testing.assert_array_equal(array.reshape(16).numpy()[:8], np.arange(7.0, -1, -1))
        self.assertEqual(array.reshape(4, 4).shape, (4, 4))
        with self.assertRaises(ValueError):
            array.write(np.zeros(15))
        with self.assertRaises(ValueError):
            array.reshape(3, 5)

    def test_arrays_are_taken_for_numpys(self):
        array = self.device.array(np.arange(6.0).reshape(2, 3))
        self.assertEqual(np.asarray(array).ctypes.data, array.numpy().ctypes.data)
        self.assertNotEqual(np.array(array).ctypes.data, array.numpy().ctypes.data)
        self.assertEqual(np.asarray(array, np.float64).dtype, np.float64)
        self.assertEqual(np.sum(array), 15.0)
        with self.assertRaises(ValueError):
            array.__array__(np.float64, copy=False)
        with self.assertRaises(ValueError):
            np.asarray(self.device.record().scratch(3))

    def test_items(self):
        array = self.device.array(np.arange(6.0).reshape(2, 3))
        self.assertEqual((array[1, 2], array[-1, 0], len(array)), (5.0, 3.0, 2))
        np.testing.assert_array_equal(array[:, 1], [1.0, 4.0])
        np.testing.assert_array_equal(np.stack(list(array)), array.numpy())
        array[0][1] = 7.0
        self.assertEqual(array.numpy()[0, 1], 7.0)
        with self.assertRaises(IndexError):
            array[2]

    def test_dlpack_shares_the_memory(self):
        array = self.device.array(np.arange(6.0).reshape(2, 3))
        buffer = weakref.ref(array._buffer)
        other = np.from_dlpack(array)
        self.assertEqual((other.ctypes.data, other.shape), (array.numpy().ctypes.data, (2, 3)))
        del array
        gc.collect()
        self.assertIsNotNone(buffer())
        np.testing.assert_array_equal(other, np.arange(6.0).reshape(2, 3))
        del other
        gc.collect()
        self.assertIsNone(buffer())
        array = self.device.zeros(3)
        self.assertEqual(array.__dlpack_device__(), (1, 0))
        for wrong in (dict(stream=1), dict(dl_device=(2, 0))):
            with self.assertRaises(BufferError):
                array.__dlpack__(**wrong)
        with self.assertRaises(BufferError):
            self.device.record().scratch(3).__dlpack__()

    def test_wrap_is_the_memory_itself(self):
        values = np.arange(8, dtype=np.float32)
        array = self.device.wrap(values)
        self.assertEqual(array.numpy().ctypes.data, values.ctypes.data)
        recorder = self.device.record()
        recorder.scale(array, out=array, factor=2.0)
        recorder.compile().run()
        np.testing.assert_array_equal(values, 2 * np.arange(8))
        with self.assertRaises(ValueError):
            self.device.wrap(values[::2])
        with self.assertRaises(TypeError):
            self.device.wrap(np.zeros(3))


class SignatureTest(unittest.TestCase):
    """What editors and type checkers see."""

    def test_every_op_is_a_method(self):
        sys.path.insert(0, os.path.join(support.SOURCE_DIR, "scripts"))
        import make_python_ops
        with open(os.path.join(support.PYTHON_DIR, "onepass", "_ops.py"), encoding="utf-8") as file:
            self.assertEqual(file.read(), make_python_ops.text_of(onepass.ops()),
                             "run scripts/make_python_ops.py LIBRARY")

    def test_nothing_public_is_any(self):
        def parts(hint):
            yield hint
            for part in typing.get_args(hint):
                yield from parts(part) if not isinstance(part, str) else ()
        functions = {f for f in vars(onepass).values() if inspect.isfunction(f)}
        for name in onepass.__all__:
            for kind in getattr(getattr(onepass, name), "__mro__", ()):
                functions |= {f.fget if isinstance(f, property) else f for f in vars(kind).values()
                              if isinstance(f, property) or inspect.isfunction(f)}
        checked = 0
        for function in functions:
            if os.path.basename(os.path.dirname(function.__code__.co_filename)) != "onepass":
                continue  # of NamedTuple, of Exception
            hints = typing.get_type_hints(function, {**vars(sys.modules[function.__module__]), "Array": onepass.Array})
            self.assertEqual(set(inspect.signature(function).parameters) - {"self"} | {"return"}, set(hints),
                             function.__qualname__)
            for hint in hints.values():
                for part in parts(hint):
                    self.assertNotIn(part, (typing.Any, list, dict, tuple), function.__qualname__)
            checked += 1
        self.assertGreater(checked, 80)


class RecordTest(unittest.TestCase):
    def setUp(self):
        self.device = onepass.Device("cpu", threads=2)

    def test_example_is_short_and_right(self):
        path = os.path.join(support.SOURCE_DIR, "examples", "python_add.py")
        with open(path, encoding="utf-8") as file:
            self.assertLessEqual(len(file.read().splitlines()), 15)
        environment = dict(os.environ, PYTHONPATH=support.PYTHON_DIR)
        output = subprocess.run([sys.executable, path], env=environment, check=True, capture_output=True,
                                text=True).stdout
        numbers = [float(n) for n in re.findall(r"[\d.]+", output)]
        self.assertEqual(numbers, [1000.0 * i for i in range(8)])

    def test_a_layer_equals_numpy(self):
        rng = np.random.default_rng(1)
        x, weight = rng.normal(size=(3, 64)), rng.normal(size=64)
        gate, up, down = (rng.normal(size=shape) / 8 for shape in ((96, 64), (96, 64), (64, 96)))
        arrays = {name: self.device.array(value) for name, value in
                  dict(x=x, weight=weight, gate=gate, up=up, down=down).items()}
        out = self.device.zeros((3, 64))
        recorder = self.device.record()
        normed, g, u, h = (recorder.scratch((3, n)) for n in (64, 96, 96, 96))
        recorder.rms_norm(arrays["x"], arrays["weight"], normed, eps=1e-5)
        recorder.matmul(normed, arrays["gate"], out=g)
        recorder.matmul(normed, arrays["up"], out=u)
        recorder.silu_mul(g, u, out=h)
        recorder.matmul(h, arrays["down"], out=out)
        recorder.add(out, arrays["x"], out=out)
        plan = recorder.compile(label="layer")
        self.assertTrue(plan.info.validated)
        self.assertEqual(plan.info.levels, plan.info.longest_path)
        self.assertEqual(plan.info.barriers, plan.info.levels - 1)
        plan.run()
        n = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * weight
        a, b = n @ gate.T, n @ up.T
        expected = (a / (1 + np.exp(-a)) * b) @ down.T + x
        np.testing.assert_allclose(out.numpy(), expected, rtol=1e-3, atol=1e-3)
        first = out.numpy().copy()
        plan.run()
        np.testing.assert_array_equal(out.numpy(), first)

    def test_fusing_can_be_turned_off(self):
        x, w, out = self.device.array(np.ones((1, 32))), self.device.array(np.ones(32)), self.device.zeros((1, 32))
        counts = {}
        for fuse in (True, False):
            recorder = self.device.record()
            normed = recorder.scratch((1, 32))
            recorder.rms_norm(x, w, normed)
            recorder.mul(normed, x, out)
            counts[fuse] = recorder.compile(fuse=fuse).info.dispatches
        self.assertEqual(counts, {True: 1, False: 2})

    def test_async(self):
        total, one = self.device.zeros(32), self.device.array(np.ones(32))
        recorder = self.device.record()
        recorder.add(total, one, out=total)
        plan = recorder.compile()
        submissions = [plan.run_async() for _ in range(10)]
        del plan
        submissions[-1].wait()
        self.assertTrue(all(s.done for s in submissions))
        np.testing.assert_array_equal(total.numpy(), np.full(32, 10.0))

    def test_plans_keep_their_arrays(self):
        out = self.device.zeros(32)
        recorder = self.device.record()
        recorder.copy(self.device.array(np.arange(32.0)), out=out)
        plan = recorder.compile()
        del recorder
        gc.collect()
        plan.run()
        np.testing.assert_array_equal(out.numpy(), np.arange(32.0))

    def test_threads_share_a_plan(self):
        total, one = self.device.zeros(1024), self.device.array(np.ones(1024))
        recorder = self.device.record()
        recorder.add(total, one, out=total)
        plan = recorder.compile()
        threads = [threading.Thread(target=lambda: [plan.run() for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(total.numpy(), np.full(1024, 200.0))

    def test_ops_are_checked(self):
        x, out = self.device.zeros(32), self.device.zeros(32)
        self.assertIn("add", {op.name for op in onepass.ops()})
        self.assertIn("rms_norm", dir(self.device.record()))
        for wrong, kind in ((lambda r: r.ad(x, x, out), AttributeError),
                            (lambda r: r.op("ad", x, x, out), AttributeError),
                            (lambda r: r.add(x, x, out, out), TypeError),
                            (lambda r: r.add(x, a=x, out=out), TypeError),
                            (lambda r: r.add(x, x, out=out, eps=1.0), TypeError),
                            (lambda r: r.add(x, out=out), TypeError),
                            (lambda r: r.op("add", x, x, out, out), TypeError),
                            (lambda r: r.op("add", x, a=x, out=out), TypeError),
                            (lambda r: r.op("add", x, x, out=out, eps=1.0), TypeError),
                            (lambda r: r.copy(self.device.record().scratch(32), out), ValueError),
                            (lambda r: r.scratch(32).numpy(), ValueError)):
            with self.assertRaises(kind):
                wrong(self.device.record())
        for wrong, code in ((lambda r: r.op("add", x, out=out), "invalid_argument"),
                            (lambda r: r.add(x, self.device.zeros(31), out), "invalid_argument"),
                            (lambda r: r.silu(self.device.zeros(32, np.int32), out), "unsupported"),
                            (lambda r: r.softcap(x, out), "invalid_argument")):
            recorder = self.device.record()
            with self.assertRaises(onepass.Error) as caught:
                wrong(recorder)
            self.assertEqual(caught.exception.code, code, caught.exception)
            with self.assertRaises(onepass.Error):  # the first error stays
                recorder.compile()

    def test_only_arrays_are_tensors(self):
        x = self.device.zeros(4)
        for wrong in (np.zeros(4), [0.0] * 4, 1.0, self.device):
            with self.assertRaises(TypeError) as caught:
                self.device.record().add(x, wrong, out=x)
            self.assertEqual(str(caught.exception),
                             f"add: b is no onepass.Array, got {type(wrong).__name__}; "
                             "device.array(values) makes one")

    def test_options_that_do_not_fit_are_errors(self):
        x, positions = self.device.zeros((1, 1, 8)), self.device.zeros(1, np.uint32)
        for wrong in (-1, 2**32):
            with self.assertRaises(ValueError) as caught:
                self.device.record().rope(x, positions, out=x, rope_dim=wrong)
            self.assertEqual(str(caught.exception),
                             f"rope: rope_dim is {wrong}, expected 0 to 4294967295")

    def test_rope_modes(self):
        x = np.random.default_rng(2).normal(size=(2, 1, 8)).astype(np.float32)
        positions = self.device.array(np.array([0, 3], dtype=np.uint32))
        results = {}
        for mode in ("interleaved", "neox"):
            out = self.device.zeros((2, 1, 8))
            recorder = self.device.record()
            recorder.rope(self.device.array(x), positions, out=out, rope_mode=mode)
            recorder.compile().run()
            results[mode] = out.numpy()
            np.testing.assert_allclose(results[mode][0], x[0], rtol=1e-6)
        self.assertFalse(np.allclose(results["neox"][1], results["interleaved"][1]))
        angles = 3 * 10000.0 ** (-np.arange(4) / 4)
        low, high = x[1, 0, :4], x[1, 0, 4:]
        expected = np.concatenate([low * np.cos(angles) - high * np.sin(angles),
                                   low * np.sin(angles) + high * np.cos(angles)])
        np.testing.assert_allclose(results["neox"][1, 0], expected, rtol=1e-4, atol=1e-5)
        with self.assertRaisesRegex(ValueError, "rope_mode is 'neo', expected one of .*'neox'"):
            self.device.record().rope(self.device.array(x), positions, out=out, rope_mode="neo")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
