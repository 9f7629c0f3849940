"""The shared library: where it is, its structs and its functions, as include/onepass/onepass.h has them."""

import ctypes
import operator
import os
import sys
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Callable, Dict, Iterable, List, Optional, SupportsIndex, Tuple

API_VERSION = 2
SONAME = "libonepass.so.0.1"
FILE_NAME = "libonepass.dylib" if sys.platform == "darwin" else "libonepass.so"
HERE = os.path.dirname(os.path.abspath(__file__))


class Error(Exception):
    """What the library reports; `code` is one of "invalid_argument", "not_found", "stale", ..."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Struct(ctypes.Structure):
    """One that begins with its size."""

    def __init__(self, **fields: object) -> None:
        super().__init__(**fields)
        self.size = ctypes.sizeof(self)


class DeviceInfoStruct(Struct):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("description", c_char_p), ("reason", c_char_p),
                ("available", c_uint32), ("unified_memory", c_uint32), ("memory_bytes", c_uint64),
                ("compute_units", c_uint32)]


class DeviceOptions(Struct):
    _fields_ = [("size", c_size_t), ("threads", c_uint32), ("serial", c_uint32)]


class TensorStruct(ctypes.Structure):
    _fields_ = [("buffer", c_void_p), ("offset", c_uint64), ("dtype", c_int), ("rank", c_uint32),
                ("shape", c_uint32 * 4), ("scratch", c_uint32), ("reserved", c_uint32)]


class OpOptions(Struct):
    _fields_ = [("size", c_size_t), ("eps", c_float), ("factor", c_float), ("cap", c_float),
                ("scale", c_float), ("theta", c_float), ("rope_mode", c_uint32), ("rope_dim", c_uint32),
                ("start", c_uint32), ("keep_last", c_uint32), ("kv_len", c_uint32), ("window", c_uint32),
                ("full", c_uint32)]


class OpInfoStruct(Struct):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("tensors", c_char_p), ("options", c_char_p)]


class PlanOptions(Struct):
    _fields_ = [("size", c_size_t), ("no_fuse", c_uint32), ("exact", c_uint32), ("label", c_char_p)]


class PlanInfoStruct(Struct):
    _fields_ = [("size", c_size_t), ("dispatches", c_uint32), ("barriers", c_uint32), ("levels", c_uint32),
                ("longest_path", c_uint32), ("fused", c_uint32), ("validated", c_uint32),
                ("arena_bytes", c_uint64)]


PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64)


class ModelOptions(Struct):
    _fields_ = [("size", c_size_t), ("no_tokenizer", c_uint32), ("reserved", c_uint32),
                ("progress", PROGRESS), ("user", c_void_p)]


class ModelInfoStruct(Struct):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("architecture", c_char_p),
                ("tokenizer_error", c_char_p), ("layers", c_uint32), ("dim", c_uint32), ("vocab", c_uint32),
                ("context", c_uint32), ("weight_bytes", c_uint64)]


class ChatOptions(Struct):
    _fields_ = [("size", c_size_t), ("chat_template", c_char_p), ("tools", c_char_p), ("variables", c_char_p),
                ("no_answer", c_uint32), ("reserved", c_uint32)]


class SequenceOptions(Struct):
    _fields_ = [("size", c_size_t), ("context", c_uint32), ("kv_f32", c_uint32)]


class PieceStruct(ctypes.Structure):
    _fields_ = [("text", c_void_p), ("text_bytes", c_size_t), ("token", c_uint32), ("has_token", c_uint32)]


PIECE = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(PieceStruct))


class GenerateOptions(Struct):
    _fields_ = [("size", c_size_t), ("max_tokens", c_uint32), ("temperature", c_float), ("top_k", c_uint32),
                ("top_p", c_float), ("min_p", c_float), ("reserved", c_uint32), ("seed", c_uint64),
                ("piece", PIECE), ("user", c_void_p)]


class GenerateReport(Struct):
    _fields_ = [("size", c_size_t), ("stop", c_int), ("prompt_tokens", c_uint32), ("tokens", c_uint32),
                ("reserved", c_uint32), ("prefill_ns", c_uint64), ("first_token_ns", c_uint64),
                ("decode_ns", c_uint64)]


# Arguments of every function that returns a result; those without one are below.
FUNCTIONS = {
    "device_count": [POINTER(c_size_t)],
    "device_list_entry": [c_size_t, POINTER(DeviceInfoStruct)],
    "device_open": [c_char_p, POINTER(DeviceOptions), POINTER(c_void_p)],
    "device_get_info": [c_void_p, POINTER(DeviceInfoStruct)],
    "device_wait": [c_void_p],
    "buffer_create": [c_void_p, c_uint64, POINTER(c_void_p)],
    "buffer_wrap": [c_void_p, c_void_p, c_uint64, POINTER(c_void_p)],
    "buffer_size": [c_void_p, POINTER(c_uint64)],
    "buffer_map": [c_void_p, POINTER(c_void_p)],
    "buffer_write": [c_void_p, c_uint64, c_void_p, c_size_t],
    "buffer_read": [c_void_p, c_uint64, c_void_p, c_size_t],
    "tensor_bytes": [c_int, c_uint32, POINTER(c_uint32), POINTER(c_uint64)],
    "op_count": [POINTER(c_size_t)],
    "op_get_info": [c_size_t, POINTER(OpInfoStruct)],
    "recorder_begin": [c_void_p, POINTER(c_void_p)],
    "recorder_scratch": [c_void_p, c_int, c_uint32, POINTER(c_uint32), POINTER(TensorStruct)],
    "op": [c_void_p, c_char_p, POINTER(TensorStruct), c_size_t, POINTER(OpOptions)],
    "recorder_compile": [c_void_p, POINTER(PlanOptions), POINTER(c_void_p)],
    "plan_run": [c_void_p],
    "plan_run_async": [c_void_p, POINTER(c_void_p)],
    "plan_get_info": [c_void_p, POINTER(PlanInfoStruct)],
    "submission_wait": [c_void_p],
    "submission_is_done": [c_void_p, POINTER(c_uint32)],
    "model_load": [c_void_p, c_char_p, POINTER(ModelOptions), POINTER(c_void_p)],
    "model_get_info": [c_void_p, POINTER(ModelInfoStruct)],
    "tokenize": [c_void_p, c_char_p, c_size_t, c_uint32, POINTER(c_uint32), c_size_t, POINTER(c_size_t)],
    "detokenize": [c_void_p, POINTER(c_uint32), c_size_t, c_uint32, c_void_p, c_size_t, POINTER(c_size_t)],
    "chat_prompt": [c_void_p, c_char_p, POINTER(ChatOptions), c_void_p, c_size_t, POINTER(c_size_t)],
    "sequence_create": [c_void_p, POINTER(SequenceOptions), POINTER(c_void_p)],
    "sequence_append": [c_void_p, POINTER(c_uint32), c_size_t],
    "sequence_logits": [c_void_p, POINTER(c_float), c_size_t],
    "sequence_length": [c_void_p, POINTER(c_uint32), POINTER(c_uint32)],
    "sequence_truncate": [c_void_p, c_uint32],
    "sequence_cancel": [c_void_p],
    "generate": [c_void_p, c_char_p, c_size_t, POINTER(GenerateOptions), POINTER(GenerateReport)],
    "generate_tokens": [c_void_p, POINTER(c_uint32), c_size_t, POINTER(GenerateOptions),
                        POINTER(GenerateReport)],
}
OTHERS: Dict[str, Tuple[object, List[object]]] = {
    "result_name": (c_char_p, [c_int]),
    "error_message": (c_char_p, []),
    "version": (c_char_p, []),
    "api_version": (c_uint32, []),
    **{f"{handle}_close": (None, [c_void_p]) for handle in
       ("device", "buffer", "recorder", "plan", "submission", "model", "sequence")},
}


def candidates() -> List[str]:
    """What to open, best first: as told, in the package, in the build tree around it, installed."""
    named = os.environ.get("ONEPASS_LIBRARY")
    if named:
        return [named]
    root = os.path.dirname(os.path.dirname(HERE))
    files = [os.path.join(HERE, FILE_NAME)]
    if os.path.exists(os.path.join(root, "include", "onepass", "onepass.h")):
        files += [os.path.join(root, "build", preset, "src", FILE_NAME) for preset in ("release", "run", "dev")]
    files.append(os.path.join(sys.prefix, "lib", FILE_NAME))
    found = [path for path in files if os.path.exists(path)]
    return found + [SONAME, FILE_NAME]


def load() -> Tuple[str, ctypes.CDLL]:
    reasons = []
    for path in candidates():
        try:
            return path, ctypes.CDLL(path)
        except OSError as error:
            reasons.append(str(error))
    raise ImportError("libonepass was not found; `pip install .` builds one into the package, "
                      "ONEPASS_LIBRARY names another:\n  " + "\n  ".join(reasons))


PATH, LIBRARY = load()
LIBRARY.onepass_api_version.restype = c_uint32
if LIBRARY.onepass_api_version() < API_VERSION:
    raise ImportError(f"{PATH} has version {LIBRARY.onepass_api_version()} of the C API, "
                      f"this package needs {API_VERSION}")
for _name, _arguments in FUNCTIONS.items():
    _function = getattr(LIBRARY, "onepass_" + _name)
    _function.restype, _function.argtypes = c_int, _arguments
for _name, (_result, _arguments) in OTHERS.items():
    _function = getattr(LIBRARY, "onepass_" + _name)
    _function.restype, _function.argtypes = _result, _arguments


def call(name: str, *arguments: object) -> None:
    """Calls onepass_NAME; an error becomes an exception."""
    result = getattr(LIBRARY, "onepass_" + name)(*arguments)
    if result != 0:
        raise Error(LIBRARY.onepass_result_name(result).decode(),
                    LIBRARY.onepass_error_message().decode("utf-8", "replace"))


def version() -> str:
    """Of the library."""
    return str(LIBRARY.onepass_version().decode())


def library_path() -> str:
    return PATH


class Handle:
    """Owns what onepass_KIND_close ends."""

    kind = ""
    _close: Optional[Callable[[c_void_p], None]] = None

    def __init__(self, pointer: c_void_p) -> None:
        self._pointer = pointer
        # Kept here: module globals may be gone when the interpreter ends.
        self._close = getattr(LIBRARY, f"onepass_{self.kind}_close")

    def __del__(self) -> None:
        close, self._close = self._close, None
        if close is not None:
            close(self._pointer)


def unsigned(name: str, value: SupportsIndex, bits: int = 32, least: int = 0) -> int:
    """`value` as an int from `least` to what `bits` bits hold; ctypes itself would wrap it."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, expected an integer, "
                        f"got {type(value).__name__}") from None
    if not least <= number < 1 << bits:
        raise ValueError(f"{name} is {number}, expected {least} to {(1 << bits) - 1}")
    return number


def array_u32(name: str, values: Iterable[SupportsIndex]) -> "ctypes.Array[c_uint32]":
    """A C array of `values`, which may be empty."""
    numbers = [unsigned(f"{name}[{i}]", value) for i, value in enumerate(values)]
    return (c_uint32 * max(1, len(numbers)))(*numbers)
