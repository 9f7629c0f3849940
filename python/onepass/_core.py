"""Devices, arrays, recorders and plans."""

import ctypes
from typing import Dict, Iterator, List, NamedTuple, Optional, SupportsIndex, Tuple, Type, Union, cast
from typing import Sequence as SequenceOf

import numpy as np

from onepass import _library as lib
from onepass._library import Handle, call
from onepass._ops import Ops

Scalar = Union[np.float32, np.float16, np.uint8, np.uint16, np.uint32, np.int32]
Numbers = np.ndarray[Tuple[int, ...], np.dtype[Scalar]]
Wide = Union[Scalar, np.float64, np.int8, np.int16, np.int64, np.uint64]
Data = Union[float, Wide, np.ndarray[Tuple[int, ...], np.dtype[Wide]], SequenceOf[object]]  # what NumPy takes
DType = Union[str, type, "np.dtype[Wide]"]  # NumPy's or a name like "bf16"
Shape = Union[SupportsIndex, Tuple[SupportsIndex, ...], List[int]]
Index = Union[int, slice, None, Numbers, Tuple[Union[int, slice, None], ...]]

# In the order of onepass_dtype: name, NumPy's type of its bytes, elements and bytes of a block.
_FORMATS: List[Tuple[str, Type[Scalar], int]] = [
            ("f32", np.float32, 1), ("f16", np.float16, 1), ("bf16", np.uint16, 1), ("u8", np.uint8, 1),
            ("u16", np.uint16, 1), ("u32", np.uint32, 1), ("i32", np.int32, 1), ("q4_0", np.uint8, 32),
            ("q4_1", np.uint8, 32), ("q5_0", np.uint8, 32), ("q5_1", np.uint8, 32), ("q8_0", np.uint8, 32),
            ("q2_k", np.uint8, 256), ("q3_k", np.uint8, 256), ("q4_k", np.uint8, 256), ("q5_k", np.uint8, 256),
            ("q6_k", np.uint8, 256), ("iq4_nl", np.uint8, 32), ("iq4_xs", np.uint8, 256), ("mxfp4", np.uint8, 32),
            ("nvfp4", np.uint8, 64), ("tq1_0", np.uint8, 256), ("tq2_0", np.uint8, 256), ("q1_0", np.uint8, 128),
            ("q2_0", np.uint8, 64), ("iq3_s", np.uint8, 256), ("iq3_xxs", np.uint8, 256), ("iq2_xs", np.uint8, 256),
            ("iq2_s", np.uint8, 256), ("iq2_xxs", np.uint8, 256), ("iq1_s", np.uint8, 256), ("iq1_m", np.uint8, 256)]
_NUMBERS = {name: i for i, (name, _, _) in enumerate(_FORMATS)}
# bf16 and blocks have no type in NumPy: they are asked for by name.
_NAMES = {np.dtype(kind).name: name for name, kind, block in reversed(_FORMATS) if block == 1 and name != "bf16"}
_ROPE_MODES = {"interleaved": 0, "neox": 1}
_COUNTS = ("rope_dim", "start", "kv_len", "window")  # options that are unsigned numbers


class DeviceInfo(NamedTuple):
    name: str
    description: str
    available: bool
    reason: str  # why it cannot be opened
    unified_memory: Optional[bool] = None  # None: known once it is opened, as what follows
    memory_bytes: Optional[int] = None
    compute_units: Optional[int] = None


class OpInfo(NamedTuple):
    name: str
    tensors: Tuple[str, ...]  # names in order; "weight?" may be left out
    options: Tuple[str, ...]


class PlanInfo(NamedTuple):
    dispatches: int
    barriers: int
    levels: int
    longest_path: int
    fused: int
    validated: bool
    arena_bytes: int


def _device_info(raw: lib.DeviceInfoStruct) -> DeviceInfo:
    return DeviceInfo(raw.name.decode(), raw.description.decode(), bool(raw.available),
                      raw.reason.decode())


def devices() -> List[DeviceInfo]:
    """Every device the library knows of, those it cannot open included. unified_memory,
    memory_bytes and compute_units are None here: Device(name).info has them."""
    count = ctypes.c_size_t()
    call("device_count", ctypes.byref(count))
    infos = []
    for i in range(count.value):
        raw = lib.DeviceInfoStruct()
        call("device_list_entry", i, ctypes.byref(raw))
        infos.append(_device_info(raw))
    return infos


def _read_ops() -> Dict[str, OpInfo]:
    count = ctypes.c_size_t()
    call("op_count", ctypes.byref(count))
    table: Dict[str, OpInfo] = {}
    for i in range(count.value):
        raw = lib.OpInfoStruct()
        call("op_get_info", i, ctypes.byref(raw))
        table[raw.name.decode()] = OpInfo(raw.name.decode(), tuple(raw.tensors.decode().split()),
                                          tuple(raw.options.decode().split()))
    return table


_OPS = _read_ops()


def ops() -> List[OpInfo]:
    """What recorders can record."""
    return list(_OPS.values())


def _dtype_name(dtype: DType) -> str:
    """Of NumPy's types or a name like "bf16"."""
    if isinstance(dtype, str) and dtype in _NUMBERS:
        return dtype
    name = _NAMES.get(np.dtype(dtype).name)
    if name is None:
        raise TypeError(f"no such type on a device: {dtype}")
    return name


def _shape_of(shape: Shape) -> Tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, (tuple, list, np.ndarray)) else (shape,)
    if len(sizes) > 4:
        raise ValueError(f"at most 4 dimensions, got {sizes}")
    return tuple(lib.unsigned(f"shape[{i}]", n) for i, n in enumerate(sizes))


def _bytes_of(dtype: str, shape: Tuple[int, ...]) -> int:
    total = ctypes.c_uint64()
    call("tensor_bytes", _NUMBERS[dtype], len(shape), lib.array_u32("shape", shape),
         ctypes.byref(total))
    return total.value


def _cast(values: Numbers, kind: "np.dtype[Scalar]", taker: object) -> Numbers:
    """`values`, contiguous and of NumPy's type `kind`; ValueError where one is beyond its range."""
    if kind.kind in "iu" and values.dtype != kind and values.size:
        limits = np.iinfo(cast("np.dtype[np.int64]", kind))
        low, high = int(limits.min), int(limits.max)
        # As Python's numbers: NumPy would round the bounds to the type of the values.
        for value in np.array([values.min(), values.max()], values.dtype).tolist():
            if not low <= value <= high:
                raise ValueError(f"{taker} takes values from {low} to {high}, got {value}")
    with np.errstate(over="ignore"):
        made = np.ascontiguousarray(values, dtype=kind)
    if kind.kind == "f" and values.dtype != kind and np.isinf(made).any():
        infinite = np.isinf(values.astype(np.longdouble))
        beyond = values[np.isinf(made).reshape(values.shape) & ~infinite]
        if beyond.size:
            raise ValueError(f"{taker} takes finite values up to {np.finfo(cast('np.dtype[np.float32]', kind)).max}, "
                             f"got {beyond[0]}")
    return made


class _Buffer(Handle):
    kind = "buffer"

    def __init__(self, pointer: ctypes.c_void_p, device: "Device",
                 memory: Optional[Numbers] = None) -> None:
        super().__init__(pointer)
        self.device = device
        self.memory = memory  # NumPy's array that it wraps


class Array:
    """Memory of a device with a type and a shape, row-major. Recorders' scratch is an Array without
    host access."""

    def __init__(self, buffer: Optional[_Buffer], dtype: str, shape: Tuple[int, ...], offset: int = 0,
                 scratch: int = 0, recorder: "Optional[Recorder]" = None) -> None:
        self._buffer = buffer
        self._offset = offset
        self._scratch = scratch
        self._recorder = recorder
        self.dtype = dtype  # "f32", "q8_0", ...
        self.shape = shape

    def __repr__(self) -> str:
        return f"onepass.Array({self.dtype}, {list(self.shape)}{', scratch' if self._scratch else ''})"

    @property
    def nbytes(self) -> int:
        return _bytes_of(self.dtype, self.shape)

    def reshape(self, *shape: Union[SupportsIndex, Tuple[SupportsIndex, ...]]) -> "Array":
        """The same memory in another shape with as many elements."""
        sizes = _shape_of(shape[0] if len(shape) == 1 else cast(Tuple[int, ...], shape))
        if _bytes_of(self.dtype, sizes) != self.nbytes:
            raise ValueError(f"{list(self.shape)} does not fill {list(sizes)}")
        return Array(self._buffer, self.dtype, sizes, self._offset, self._scratch, self._recorder)

    def numpy(self) -> Numbers:
        """Waits for the last pass. On devices with unified memory (the CPU) a view of the memory
        itself, which later passes change; on others a copy. bf16 comes as uint16, blocks as uint8."""
        if self._buffer is None:
            raise ValueError("scratch has no memory of its own")
        kind, nbytes = _FORMATS[_NUMBERS[self.dtype]][1], self.nbytes
        if self._buffer.device.info.unified_memory:
            pointer = ctypes.c_void_p()
            call("buffer_map", self._buffer._pointer, ctypes.byref(pointer))
            memory = (ctypes.c_uint8 * nbytes).from_address((pointer.value or 0) + self._offset)
            setattr(memory, "owner", self._buffer)  # kept as long as a view of it
        else:
            memory = (ctypes.c_uint8 * nbytes)()
            call("buffer_read", self._buffer._pointer, self._offset, memory, nbytes)
        flat = cast(Numbers, np.frombuffer(memoryview(memory), dtype=kind))
        return flat if _FORMATS[_NUMBERS[self.dtype]][2] > 1 else flat.reshape(self.shape)

    def __array__(self, dtype: Optional[DType] = None, copy: Optional[bool] = None) -> Numbers:
        """For NumPy, which takes an Array wherever it takes its own: what numpy() gives."""
        values = self.numpy()
        kind = values.dtype if dtype is None else cast("np.dtype[Scalar]", np.dtype(cast(type, dtype)))
        shared = kind == values.dtype and self._is_shared()
        if copy is False and not shared:
            raise ValueError(f"{self!r} cannot be had as {kind} without a copy")
        return values.astype(kind, copy=bool(copy) and self._is_shared())

    def __dlpack__(self, *, stream: Optional[int] = None, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Optional[Tuple[int, int]] = None, copy: Optional[bool] = None) -> object:
        """The memory for other libraries, torch.from_dlpack(array); without a copy, as numpy() gives it."""
        del max_version  # an older version than asked for is always allowed
        if stream is not None or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"{self!r} is in the host's memory: no stream, no other device")
        values = self.numpy()
        return (values.copy() if copy else values).__dlpack__()

    def __dlpack_device__(self) -> Tuple[int, int]:
        if not self._is_shared():
            raise BufferError(f"{self!r} has no memory that the host shares; numpy() makes a copy")
        return (1, 0)  # kDLCPU

    def __getitem__(self, index: Index) -> Union[Numbers, Scalar]:
        """numpy()[index]."""
        return cast(Union[Numbers, Scalar], self.numpy()[index])

    def __len__(self) -> int:
        return len(self.numpy())

    def __iter__(self) -> Iterator[Union[Numbers, Scalar]]:
        return iter(self.numpy())

    def _is_shared(self) -> bool:
        return self._buffer is not None and bool(self._buffer.device.info.unified_memory)

    def write(self, values: Data) -> None:
        """Copies as many values as there are elements, each within the range of the type; waits for
        the last pass."""
        if self._buffer is None:
            raise ValueError("scratch has no memory of its own")
        kind = cast("np.dtype[Scalar]", np.dtype(_FORMATS[_NUMBERS[self.dtype]][1]))
        made = _cast(np.asarray(values), kind, self)
        if made.nbytes != self.nbytes:
            raise ValueError(f"{self!r} has {self.nbytes} bytes, got {made.nbytes}")
        call("buffer_write", self._buffer._pointer, self._offset, made.ctypes.data, made.nbytes)

    def _struct(self) -> lib.TensorStruct:
        raw = lib.TensorStruct(buffer=None if self._buffer is None else self._buffer._pointer,
                               offset=self._offset, dtype=_NUMBERS[self.dtype], rank=len(self.shape),
                               scratch=self._scratch)
        for i, n in enumerate(self.shape):
            raw.shape[i] = n
        return raw


class Device(Handle):
    """"cpu", "cuda:0", or "auto": the first card that can be opened, else the CPU. Never another
    device than asked for."""

    kind = "device"

    def __init__(self, name: str = "auto", threads: int = 0, serial: bool = False) -> None:
        pointer = ctypes.c_void_p()
        options = lib.DeviceOptions(threads=lib.unsigned("threads", threads), serial=bool(serial))
        call("device_open", name.encode(), ctypes.byref(options), ctypes.byref(pointer))
        super().__init__(pointer)
        raw = lib.DeviceInfoStruct()
        call("device_get_info", self._pointer, ctypes.byref(raw))
        self.info = _device_info(raw)._replace(unified_memory=bool(raw.unified_memory),
                                               memory_bytes=raw.memory_bytes,
                                               compute_units=raw.compute_units)

    def __repr__(self) -> str:
        return f"onepass.Device({self.info.name!r})"

    def zeros(self, shape: Shape, dtype: DType = np.float32) -> Array:
        """An Array of zeros; dtype is NumPy's or a name like "bf16" or "q8_0"."""
        name, sizes = _dtype_name(dtype), _shape_of(shape)
        pointer = ctypes.c_void_p()
        call("buffer_create", self._pointer, _bytes_of(name, sizes), ctypes.byref(pointer))
        return Array(_Buffer(pointer, self), name, sizes)

    def array(self, values: Data, dtype: Optional[DType] = None) -> Array:
        """A copy of values; float64 and int64 become float32 and int32 unless dtype says more. A
        value beyond the range of the type is a ValueError."""
        given = np.asarray(values)
        if dtype is None:
            smaller = {"float64": "f32", "int64": "i32"}.get(given.dtype.name)
            dtype = given.dtype if smaller is None else smaller
        made = self.zeros(given.shape, dtype)
        made.write(given)
        return made

    def wrap(self, values: Numbers) -> Array:
        """NumPy's memory itself, which must be contiguous and writable. Unified memory only."""
        if not (values.flags.c_contiguous and values.flags.writeable):
            raise ValueError("only contiguous, writable arrays can be wrapped")
        dtype, shape = _dtype_name(values.dtype), _shape_of(values.shape)
        pointer = ctypes.c_void_p()
        call("buffer_wrap", self._pointer, values.ctypes.data, values.nbytes, ctypes.byref(pointer))
        return Array(_Buffer(pointer, self, values), dtype, shape)

    def record(self) -> "Recorder":
        return Recorder(self)

    def wait(self) -> None:
        """Until everything submitted so far has completed."""
        call("device_wait", self._pointer)


class Recorder(Handle, Ops):
    """Records ops, which are its methods: recorder.rms_norm(x, weight=w, out=y, eps=1e-5)."""

    kind = "recorder"

    def __init__(self, device: Device) -> None:
        pointer = ctypes.c_void_p()
        call("recorder_begin", device._pointer, ctypes.byref(pointer))
        super().__init__(pointer)
        self._device = device
        self._buffers: List[_Buffer] = []  # kept for the plan

    def scratch(self, shape: Shape, dtype: DType = np.float32) -> Array:
        """An Array that only this pass needs: it may be shared or fused away."""
        kind, sizes = _dtype_name(dtype), _shape_of(shape)
        raw = lib.TensorStruct()
        call("recorder_scratch", self._pointer, _NUMBERS[kind], len(sizes),
             lib.array_u32("shape", sizes), ctypes.byref(raw))
        return Array(None, kind, sizes, 0, raw.scratch, self)

    def op(self, name: str, *tensors: Optional[Array], **more: Union[Array, float, bool, str, None]) -> None:
        """Records one op by its name. Tensors by position or name; None for one that may be left out."""
        info = _OPS.get(name)
        if info is None:
            raise AttributeError(f"there is no op {name!r}")
        names = [n.rstrip("?") for n in info.tensors]
        if len(tensors) > len(names):
            raise TypeError(f"{name} takes {len(names)} tensors: {', '.join(names)}")
        given: Dict[str, object] = dict(zip(names, tensors))
        options = lib.OpOptions()
        for key, value in more.items():
            if key in given:
                raise TypeError(f"{name} got {key} twice")
            if key in names:
                given[key] = value
            elif key in info.options:
                if key == "rope_mode":
                    if not isinstance(value, str) or value not in _ROPE_MODES:
                        raise ValueError(f"{name}: rope_mode is {value!r}, expected one of "
                                         f"{', '.join(map(repr, _ROPE_MODES))}")
                    value = _ROPE_MODES[value]
                elif key in _COUNTS:
                    value = lib.unsigned(f"{name}: {key}", cast(SupportsIndex, value))
                setattr(options, key, value)
            else:
                raise TypeError(f"{name} takes no {key}; tensors: {', '.join(names)}; "
                                f"options: {', '.join(info.options) or 'none'}")
        structs = (lib.TensorStruct * len(names))()
        for i, key in enumerate(names):
            array = given.get(key)
            if array is None:
                continue
            if not isinstance(array, Array):
                raise TypeError(f"{name}: {key} is no onepass.Array, got "
                                f"{type(array).__name__}; device.array(values) makes one")
            if array._scratch and array._recorder is not self:
                raise ValueError(f"{name}: {key} is scratch of another recorder")
            structs[i] = array._struct()
            if array._buffer is not None:
                self._buffers.append(array._buffer)
        call("op", self._pointer, name.encode(), structs, len(names), ctypes.byref(options))

    def compile(self, fuse: bool = True, exact: bool = False, label: Optional[str] = None) -> "Plan":
        """Ends the recording and makes a Plan of it; exact: only fusions that keep every bit."""
        pointer = ctypes.c_void_p()
        options = lib.PlanOptions(no_fuse=not fuse, exact=bool(exact),
                                  label=None if label is None else label.encode())
        call("recorder_compile", self._pointer, ctypes.byref(options), ctypes.byref(pointer))
        return Plan(pointer, self._buffers)


class Plan(Handle):
    """A compiled pass. It keeps the arrays alive that it uses."""

    kind = "plan"

    def __init__(self, pointer: ctypes.c_void_p, buffers: List[_Buffer]) -> None:
        super().__init__(pointer)
        self._buffers = buffers

    def run(self) -> None:
        """One submission, one wait."""
        call("plan_run", self._pointer)

    def run_async(self) -> "Submission":
        """Submits without waiting."""
        pointer = ctypes.c_void_p()
        call("plan_run_async", self._pointer, ctypes.byref(pointer))
        return Submission(pointer, self)

    @property
    def info(self) -> PlanInfo:
        raw = lib.PlanInfoStruct()
        call("plan_get_info", self._pointer, ctypes.byref(raw))
        return PlanInfo(raw.dispatches, raw.barriers, raw.levels, raw.longest_path, raw.fused,
                        bool(raw.validated), raw.arena_bytes)


class Submission(Handle):
    """One execution of a plan."""

    kind = "submission"

    def __init__(self, pointer: ctypes.c_void_p, plan: Plan) -> None:
        super().__init__(pointer)
        self._plan = plan

    def wait(self) -> None:
        call("submission_wait", self._pointer)

    @property
    def done(self) -> bool:
        done = ctypes.c_uint32()
        call("submission_is_done", self._pointer, ctypes.byref(done))
        return bool(done.value)
