"""Models: text in, text out."""

import ctypes
import json
import os
import weakref
from typing import (Callable, Iterable, Iterator, List, Mapping, NamedTuple, Optional, SupportsIndex, Tuple, Union,
                    cast)
from typing import Sequence as SequenceOf

import numpy as np

from onepass import _library as lib
from onepass._call import Call
from onepass._core import Device
from onepass._library import Handle, call

Json = Union[None, bool, int, float, str, SequenceOf["Json"], Mapping[str, "Json"]]
Message = Mapping[str, Json]  # {"role": "user", "content": "Hello"}
# A text, token ids, or the messages of a conversation, which the chat template of the model makes a text of.
Prompt = Union[str, bytes, SequenceOf[Message], Iterable[SupportsIndex]]
Logits = np.ndarray[Tuple[int, ...], np.dtype[np.float32]]
OnPiece = Callable[[str, Optional[int]], object]
OnProgress = Callable[[int, int], object]

_STOPS = ("end_of_text", "max_tokens", "context_full", "caller")
_NO_SPECIAL, _PARSE_SPECIAL, _SHOW_SPECIAL, _AS_PROMPT = 1, 2, 4, 8
_CONTEXT_STEP = 256  # tokens that the context of a generate without one is a multiple of


class ModelInfo(NamedTuple):
    name: str
    architecture: str
    tokenizer_error: str  # why there is no tokenizer, "" where there is one
    layers: int
    dim: int
    vocab: int
    context: int  # tokens, as trained
    weight_bytes: int


class Piece(NamedTuple):
    text: str  # "" where the token completes no character
    token: Optional[int]  # None: the rest of a text that ended inside a character


class Generated(NamedTuple):
    text: str
    tokens: List[int]
    stop: str  # "end_of_text", "max_tokens", "context_full" or "caller"
    prompt_tokens: int
    prefill_ns: int
    first_token_ns: int
    decode_ns: int


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a text was generated; `generated` has the text so far."""

    def __init__(self, generated: Generated) -> None:
        super().__init__()
        self.generated = generated


def _json(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _is_chat(prompt: Prompt) -> bool:
    return isinstance(prompt, (list, tuple)) and len(prompt) > 0 and isinstance(prompt[0], Mapping)


class Model(Handle):
    """A GGUF file, a folder with safetensors, or "synthetic:PRESET:FORMAT".

    progress(done, total) is told the bytes read so far; a true value stops loading. chat_template: a
    Jinja template instead of the model's own."""

    kind = "model"

    def __init__(self, path: Union[str, "os.PathLike[str]"], device: Optional[Device] = None, tokenizer: bool = True,
                 progress: Optional[OnProgress] = None, chat_template: Optional[str] = None) -> None:
        if device is not None and not isinstance(device, Device):
            raise TypeError(f"device is no onepass.Device, got {type(device).__name__}; "
                            'onepass.Device("cpu") opens one')
        self.device = Device() if device is None else device
        self.chat_template = chat_template
        pointer = ctypes.c_void_p()

        def body(load: "Call[Tuple[int, int]]") -> None:
            def told(_: object, done: int, total: int) -> int:
                if progress is not None:
                    load.tell((done, total))
                return int(load.stopped)
            options = lib.ModelOptions(no_tokenizer=int(not tokenizer), progress=lib.PROGRESS(told))
            call("model_load", self.device._pointer, os.fsencode(path), ctypes.byref(options), ctypes.byref(pointer))
            # Owned before it is known whether anybody still waits for it.
            super(Model, self).__init__(pointer)

        load = Call(body, lambda: None)
        for done, total in load.events():
            if progress is not None and progress(done, total):
                load.stopped = True
        raw = lib.ModelInfoStruct()
        call("model_get_info", self._pointer, ctypes.byref(raw))
        self.info = ModelInfo(raw.name.decode("utf-8", "replace"), raw.architecture.decode(),
                              raw.tokenizer_error.decode("utf-8", "replace"), raw.layers, raw.dim, raw.vocab,
                              raw.context, raw.weight_bytes)

    def __repr__(self) -> str:
        return f"onepass.Model({self.info.name!r}, {self.info.architecture}, {self.info.layers} layers)"

    def tokenize(self, text: Union[str, bytes], special: bool = True, parse_special: bool = False) -> List[int]:
        """Ids of a text; special: with the begin and end tokens that the vocabulary asks for."""
        return self._ids(text, (0 if special else _NO_SPECIAL) | (_PARSE_SPECIAL if parse_special else 0))

    def _ids(self, text: Union[str, bytes], flags: int) -> List[int]:
        data = text.encode() if isinstance(text, str) else bytes(text)
        count = ctypes.c_size_t()
        call("tokenize", self._pointer, data, len(data), flags, None, 0, ctypes.byref(count))
        ids = (ctypes.c_uint32 * max(1, count.value))()
        call("tokenize", self._pointer, data, len(data), flags, ids, count.value, ctypes.byref(count))
        return ids[:count.value]

    def detokenize(self, ids: Iterable[SupportsIndex], special: bool = False) -> str:
        """The text of ids; special: control tokens too."""
        ids = list(ids)
        raw, flags = lib.array_u32("ids", ids), _SHOW_SPECIAL if special else 0
        count = ctypes.c_size_t()
        call("detokenize", self._pointer, raw, len(ids), flags, None, 0, ctypes.byref(count))
        text = ctypes.create_string_buffer(max(1, count.value))
        call("detokenize", self._pointer, raw, len(ids), flags, text, count.value, ctypes.byref(count))
        return text.raw[:count.value].decode("utf-8", "replace")

    def chat_prompt(self, messages: SequenceOf[Message], tools: Optional[SequenceOf[Json]] = None,
                    variables: Optional[Mapping[str, Json]] = None, answer: bool = True) -> str:
        """A conversation as the model wants it written, by its chat template; answer: with the start of
        the model's answer. variables are the template's, {"enable_thinking": False}."""
        own = self.chat_template
        options = lib.ChatOptions(chat_template=None if own is None else own.encode(), no_answer=int(not answer),
                                  tools=None if tools is None else _json(tools),
                                  variables=None if variables is None else _json(variables))
        said, count = _json(messages), ctypes.c_size_t()
        call("chat_prompt", self._pointer, said, ctypes.byref(options), None, 0, ctypes.byref(count))
        text = ctypes.create_string_buffer(max(1, count.value))
        call("chat_prompt", self._pointer, said, ctypes.byref(options), text, count.value, ctypes.byref(count))
        return text.raw[:count.value].decode("utf-8", "replace")

    def sequence(self, context: int = 0, kv: str = "f16") -> "Sequence":
        """A text in the making; context 0: as trained. kv: type of keys and values, f16 or f32."""
        return Sequence(self, context, kv)

    def generate(self, prompt: Prompt, max_tokens: int = 256, temperature: float = 0.7, top_k: int = 40,
                 top_p: float = 0.95, min_p: float = 0.05, seed: int = 1, on_piece: Optional[OnPiece] = None,
                 context: int = 0) -> Generated:
        """A text of its own: Sequence.generate with a new sequence. context 0: what is needed, at most as
        trained."""
        ids, sequence = self._begin(prompt, max_tokens, context)
        return sequence.generate(ids, max_tokens, temperature, top_k, top_p, min_p, seed, on_piece)

    def stream(self, prompt: Prompt, max_tokens: int = 256, temperature: float = 0.7, top_k: int = 40,
               top_p: float = 0.95, min_p: float = 0.05, seed: int = 1, context: int = 0) -> Iterator[Piece]:
        """The pieces of a text of its own, as they come: Sequence.stream with a new sequence."""
        ids, sequence = self._begin(prompt, max_tokens, context)
        return sequence.stream(ids, max_tokens, temperature, top_k, top_p, min_p, seed)

    def _begin(self, prompt: Prompt, max_tokens: int, context: int) -> "Tuple[List[int], Sequence]":
        ids = self._prompt_ids(prompt, at_start=True)
        if lib.unsigned("context", context) == 0:
            needed = len(ids) + lib.unsigned("max_tokens", max_tokens, least=1)
            context = min(self.info.context, -(-needed // _CONTEXT_STEP) * _CONTEXT_STEP)
        return ids, self.sequence(context)

    def _prompt_ids(self, prompt: Prompt, at_start: bool) -> List[int]:
        if isinstance(prompt, (str, bytes)):
            return self._ids(prompt, _AS_PROMPT | (0 if at_start else _NO_SPECIAL))
        if _is_chat(prompt):
            return self._ids(self.chat_prompt(cast(SequenceOf[Message], prompt)), _AS_PROMPT | _PARSE_SPECIAL)
        ids = cast(Iterable[SupportsIndex], prompt)
        return [lib.unsigned(f"prompt[{i}]", number) for i, number in enumerate(ids)]


class _Text:
    """What a call has made so far."""

    def __init__(self) -> None:
        self.texts: List[str] = []
        self.tokens: List[int] = []
        self.report = lib.GenerateReport(stop=_STOPS.index("caller"))

    def add(self, raw: lib.PieceStruct) -> Piece:
        text = ctypes.string_at(raw.text, raw.text_bytes).decode() if raw.text_bytes else ""
        piece = Piece(text, raw.token if raw.has_token else None)
        self.texts.append(piece.text)
        if piece.token is not None:
            self.tokens.append(piece.token)
        return piece

    def generated(self) -> Generated:
        r = self.report
        return Generated("".join(self.texts), list(self.tokens), _STOPS[r.stop], r.prompt_tokens, r.prefill_ns,
                         r.first_token_ns, r.decode_ns)


class Sequence(Handle):
    """The tokens of one text, and what was computed for them. One thread at a time."""

    kind = "sequence"

    def __init__(self, model: Model, context: int = 0, kv: str = "f16") -> None:
        if kv not in ("f16", "f32"):
            raise ValueError(f"kv is {kv!r}, expected 'f16' or 'f32'")
        pointer = ctypes.c_void_p()
        options = lib.SequenceOptions(context=lib.unsigned("context", context), kv_f32=kv == "f32")
        call("sequence_create", model._pointer, ctypes.byref(options), ctypes.byref(pointer))
        super().__init__(pointer)
        self.model = model
        self._begun = False  # something was appended
        self._known: List[int] = []  # the first ids, for conversations that go on
        self._last: "Optional[weakref.ref[Call[Piece]]]" = None  # a call lives as long as its thread

    def _settle(self) -> None:
        """Ends a stream that was left, or what Ctrl-C left behind."""
        last = None if self._last is None else self._last()
        if last is not None:
            last.finish()

    def _length(self) -> Tuple[int, int]:
        self._settle()
        length, context = ctypes.c_uint32(), ctypes.c_uint32()
        call("sequence_length", self._pointer, ctypes.byref(length), ctypes.byref(context))
        return length.value, context.value

    def __len__(self) -> int:
        return self._length()[0]

    @property
    def context(self) -> int:
        return self._length()[1]

    def append(self, tokens: Iterable[SupportsIndex]) -> None:
        """Computes tokens behind the others."""
        self._settle()
        ids = list(tokens)
        raw = lib.array_u32("tokens", ids)
        self._begun = True

        def body(_: "Call[Piece]") -> None:
            call("sequence_append", self._pointer, raw, len(ids))
        for _ in self._call(body).events():
            pass

    def logits(self) -> Logits:
        """float32 [vocab]: scores of what may follow the last position that was computed."""
        self._settle()
        values: Logits = np.empty(self.model.info.vocab, dtype=np.float32)
        call("sequence_logits", self._pointer, values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), values.size)
        return values

    def truncate(self, length: int) -> None:
        """Forgets all but the first tokens."""
        self._settle()
        call("sequence_truncate", self._pointer, lib.unsigned("length", length))
        self._begun, self._known = length > 0, self._known[:length]

    def generate(self, prompt: Prompt, max_tokens: int = 256, temperature: float = 0.7, top_k: int = 40,
                 top_p: float = 0.95, min_p: float = 0.05, seed: int = 1,
                 on_piece: Optional[OnPiece] = None) -> Generated:
        """Continues with a prompt, a text or token ids, and with what the model makes of it. Messages are
        the whole conversation: what the sequence has of it is not computed again.

        on_piece(text, token) is told every piece as it comes; a true value ends the text. Ctrl-C raises
        Interrupted, a KeyboardInterrupt, with the text so far."""
        text = _Text()
        running = self._start(text, prompt, max_tokens, temperature, top_k, top_p, min_p, seed, on_piece is not None)
        try:
            for piece in running.events():
                if on_piece is not None and on_piece(piece.text, piece.token):
                    running.stopped = True
        except KeyboardInterrupt:
            raise Interrupted(text.generated()) from None
        finally:
            running.stop()
        return text.generated()

    def stream(self, prompt: Prompt, max_tokens: int = 256, temperature: float = 0.7, top_k: int = 40,
               top_p: float = 0.95, min_p: float = 0.05, seed: int = 1) -> Iterator[Piece]:
        """generate, piece by piece: for piece in sequence.stream("Once"): print(piece.text, end=""). To
        leave the loop ends the text."""
        text = _Text()
        running = self._start(text, prompt, max_tokens, temperature, top_k, top_p, min_p, seed, True)
        try:
            yield from running.events()
        except KeyboardInterrupt:
            raise Interrupted(text.generated()) from None

    def _start(self, text: _Text, prompt: Prompt, max_tokens: int, temperature: float, top_k: int, top_p: float,
               min_p: float, seed: int, tells: bool) -> "Call[Piece]":
        self._settle()
        ids = self.model._prompt_ids(prompt, at_start=not self._begun)
        known = list(ids)
        if _is_chat(prompt):
            ids = ids[self._keep(ids):]
        raw = lib.array_u32("prompt", ids)

        def body(running: "Call[Piece]") -> None:
            def told(_: object, piece: "ctypes._Pointer[lib.PieceStruct]") -> int:
                made = text.add(piece.contents)
                return int(running.stopped or (tells and not running.tell(made)))
            options.piece = lib.PIECE(told)
            call("generate_tokens", self._pointer, raw, len(ids), ctypes.byref(options), ctypes.byref(text.report))
            if _is_chat(prompt):
                self._known = known + text.tokens

        options = lib.GenerateOptions(max_tokens=lib.unsigned("max_tokens", max_tokens, least=1),
                                      temperature=temperature, top_k=lib.unsigned("top_k", top_k),
                                      top_p=top_p, min_p=min_p,
                                      seed=lib.unsigned("seed", seed, bits=64))
        self._begun = True
        return self._call(body)

    def _keep(self, ids: List[int]) -> int:
        """Forgets what is not of this conversation; at least one token is left to be computed."""
        most = min(len(self), len(self._known), len(ids) - 1)
        same = next((i for i in range(most) if self._known[i] != ids[i]), max(0, most))
        self.truncate(same)
        return same

    def _call(self, body: "Callable[[Call[Piece]], None]") -> "Call[Piece]":
        def cancel() -> None:
            lib.LIBRARY.onepass_sequence_cancel(self._pointer)
        made = Call(body, cancel)
        self._last = weakref.ref(made)
        return made
