"""Models: text in, text out."""

import ctypes
import os
from typing import NamedTuple

import numpy as np

from onepass import _library as lib
from onepass._core import Device
from onepass._library import Error, Handle, call

_STOPS = ("end_of_text", "max_tokens", "context_full", "caller")
_NO_SPECIAL, _PARSE_SPECIAL, _SHOW_SPECIAL = 1, 2, 4


class ModelInfo(NamedTuple):
    name: str
    architecture: str
    tokenizer_error: str  # why there is no tokenizer, "" where there is one
    layers: int
    dim: int
    vocab: int
    context: int  # tokens, as trained
    weight_bytes: int


class Generated(NamedTuple):
    text: str
    tokens: list
    stop: str  # "end_of_text", "max_tokens", "context_full" or "caller"
    prompt_tokens: int
    prefill_ns: int
    first_token_ns: int
    decode_ns: int


class _Caught:
    """Runs a caller's function from C; what it raises ends the call and is raised after it."""

    def __init__(self):
        self.error = None

    def __call__(self, function, *arguments):
        if self.error is None:
            try:
                return 1 if function(*arguments) else 0
            except BaseException as error:  # also KeyboardInterrupt
                self.error = error
        return 1

    def check(self):
        if self.error is not None:
            raise self.error


class Model(Handle):
    """A GGUF file, a folder with safetensors, or "synthetic:PRESET:FORMAT".

    progress(done, total) is told the bytes read so far; a true value stops loading."""

    kind = "model"

    def __init__(self, path, device=None, tokenizer=True, progress=None):
        if device is not None and not isinstance(device, Device):
            raise TypeError(f"device is no onepass.Device, got {type(device).__name__}; "
                            'onepass.Device("cpu") opens one')
        self.device = Device() if device is None else device
        pointer, caught = ctypes.c_void_p(), _Caught()
        options = lib.ModelOptions(no_tokenizer=int(not tokenizer))
        if progress is not None:
            options.progress = lib.PROGRESS(lambda _, done, total: caught(progress, done, total))
        try:
            call("model_load", self.device._pointer, os.fsencode(path), ctypes.byref(options),
                 ctypes.byref(pointer))
        except Error:
            caught.check()
            raise
        super().__init__(pointer)
        raw = lib.ModelInfoStruct()
        call("model_get_info", self._pointer, ctypes.byref(raw))
        self.info = ModelInfo(raw.name.decode("utf-8", "replace"), raw.architecture.decode(),
                              raw.tokenizer_error.decode("utf-8", "replace"), raw.layers, raw.dim, raw.vocab,
                              raw.context, raw.weight_bytes)

    def __repr__(self):
        return f"onepass.Model({self.info.name!r}, {self.info.architecture}, {self.info.layers} layers)"

    def tokenize(self, text, special=True, parse_special=False):
        """Ids of a text; special: with the begin and end tokens that the vocabulary asks for."""
        data = text.encode() if isinstance(text, str) else bytes(text)
        flags = (0 if special else _NO_SPECIAL) | (_PARSE_SPECIAL if parse_special else 0)
        count = ctypes.c_size_t()
        call("tokenize", self._pointer, data, len(data), flags, None, 0, ctypes.byref(count))
        ids = (ctypes.c_uint32 * max(1, count.value))()
        call("tokenize", self._pointer, data, len(data), flags, ids, count.value, ctypes.byref(count))
        return ids[:count.value]

    def detokenize(self, ids, special=False):
        """The text of ids; special: control tokens too."""
        ids = list(ids)
        raw, flags = lib.array_u32("ids", ids), _SHOW_SPECIAL if special else 0
        count = ctypes.c_size_t()
        call("detokenize", self._pointer, raw, len(ids), flags, None, 0, ctypes.byref(count))
        text = ctypes.create_string_buffer(max(1, count.value))
        call("detokenize", self._pointer, raw, len(ids), flags, text, count.value, ctypes.byref(count))
        return text.raw[:count.value].decode("utf-8", "replace")

    def sequence(self, context=0, kv="f16"):
        """A text in the making; context 0: as trained. kv: type of keys and values, f16 or f32."""
        return Sequence(self, context, kv)

    def generate(self, prompt, context=0, **options):
        """A text of its own: Sequence.generate with a new sequence."""
        return self.sequence(context).generate(prompt, **options)


class Sequence(Handle):
    """The tokens of one text, and what was computed for them. One thread at a time."""

    kind = "sequence"

    def __init__(self, model, context=0, kv="f16"):
        if kv not in ("f16", "f32"):
            raise ValueError(f"kv is {kv!r}, expected 'f16' or 'f32'")
        pointer = ctypes.c_void_p()
        options = lib.SequenceOptions(context=lib.unsigned("context", context), kv_f32=kv == "f32")
        call("sequence_create", model._pointer, ctypes.byref(options), ctypes.byref(pointer))
        super().__init__(pointer)
        self.model = model

    def _length(self):
        length, context = ctypes.c_uint32(), ctypes.c_uint32()
        call("sequence_length", self._pointer, ctypes.byref(length), ctypes.byref(context))
        return length.value, context.value

    def __len__(self):
        return self._length()[0]

    @property
    def context(self):
        return self._length()[1]

    def append(self, tokens):
        """Computes tokens behind the others."""
        tokens = list(tokens)
        call("sequence_append", self._pointer, lib.array_u32("tokens", tokens), len(tokens))

    def logits(self):
        """float32 [vocab]: scores of what may follow the last position that was computed."""
        values = np.empty(self.model.info.vocab, dtype=np.float32)
        call("sequence_logits", self._pointer, values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), values.size)
        return values

    def truncate(self, length):
        """Forgets all but the first tokens."""
        call("sequence_truncate", self._pointer, lib.unsigned("length", length))

    def generate(self, prompt, max_tokens=256, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, seed=0,
                 on_piece=None):
        """Continues with a prompt, a text or token ids, and with what the model makes of it.

        on_piece(text, token) is told every piece as it comes; a true value ends the text."""
        caught, texts, tokens = _Caught(), [], []

        def piece(_, raw):
            def take():
                one = raw.contents
                text = ctypes.string_at(one.text, one.text_bytes).decode() if one.text_bytes else ""
                token = one.token if one.has_token else None
                texts.append(text)
                if token is not None:
                    tokens.append(token)
                return on_piece(text, token) if on_piece is not None else False
            return caught(take)

        options = lib.GenerateOptions(max_tokens=lib.unsigned("max_tokens", max_tokens, least=1),
                                      temperature=temperature, top_k=lib.unsigned("top_k", top_k),
                                      top_p=top_p, min_p=min_p,
                                      seed=lib.unsigned("seed", seed, bits=64),
                                      piece=lib.PIECE(piece))
        report = lib.GenerateReport()
        if isinstance(prompt, (str, bytes)):
            data = prompt.encode() if isinstance(prompt, str) else prompt
            call("generate", self._pointer, data, len(data), ctypes.byref(options), ctypes.byref(report))
        else:
            ids = list(prompt)
            call("generate_tokens", self._pointer, lib.array_u32("prompt", ids), len(ids),
                 ctypes.byref(options), ctypes.byref(report))
        caught.check()
        return Generated("".join(texts), tokens, _STOPS[report.stop], report.prompt_tokens, report.prefill_ns,
                         report.first_token_ns, report.decode_ns)
