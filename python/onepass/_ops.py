"""Ops as methods of recorders. Written by scripts/make_python_ops.py."""

from typing import TYPE_CHECKING, Literal, Optional, Union, overload

if TYPE_CHECKING:
    from onepass._core import Array


class Ops:
    """Every op that recorders record; include/onepass/ops says what each computes. Options that are 0
    are the op's default."""

    def op(self, name: str, *tensors: "Optional[Array]", **more: "Union[Array, float, bool, str, None]") -> None:
        """Records an op by its name."""
        raise NotImplementedError

    def add(self, a: "Array", b: "Array", out: "Array") -> None:
        self.op("add", a, b, out)

    def mul(self, a: "Array", b: "Array", out: "Array") -> None:
        self.op("mul", a, b, out)

    def silu_mul(self, a: "Array", b: "Array", out: "Array") -> None:
        self.op("silu_mul", a, b, out)

    def gelu_mul(self, a: "Array", b: "Array", out: "Array") -> None:
        self.op("gelu_mul", a, b, out)

    def gelu_erf_mul(self, a: "Array", b: "Array", out: "Array") -> None:
        self.op("gelu_erf_mul", a, b, out)

    def sigmoid_mul(self, a: "Array", b: "Array", out: "Array") -> None:
        self.op("sigmoid_mul", a, b, out)

    def silu(self, x: "Array", out: "Array") -> None:
        self.op("silu", x, out)

    def gelu(self, x: "Array", out: "Array") -> None:
        self.op("gelu", x, out)

    def gelu_erf(self, x: "Array", out: "Array") -> None:
        self.op("gelu_erf", x, out)

    def relu2(self, x: "Array", out: "Array") -> None:
        self.op("relu2", x, out)

    def sigmoid(self, x: "Array", out: "Array") -> None:
        self.op("sigmoid", x, out)

    def cast(self, x: "Array", out: "Array") -> None:
        self.op("cast", x, out)

    def copy(self, x: "Array", out: "Array") -> None:
        self.op("copy", x, out)

    def dequantize(self, x: "Array", out: "Array") -> None:
        self.op("dequantize", x, out)

    def argmax(self, x: "Array", out: "Array") -> None:
        self.op("argmax", x, out)

    def argsort(self, x: "Array", out: "Array") -> None:
        self.op("argsort", x, out)

    def quantize(self, x: "Array", out: "Array") -> None:
        self.op("quantize", x, out)

    def scale(self, x: "Array", out: "Array", *, factor: float = 0.0) -> None:
        self.op("scale", x, out, factor=factor)

    def softcap(self, x: "Array", out: "Array", *, cap: float = 0.0) -> None:
        self.op("softcap", x, out, cap=cap)

    @overload
    def softmax(self, x: "Array", mask: "Optional[Array]", out: "Array", *, scale: float = ...) -> None: ...

    @overload
    def softmax(self, x: "Array", *, mask: "Optional[Array]" = ..., out: "Array", scale: float = ...) -> None: ...

    def softmax(self, x: "Array", mask: "Optional[Array]" = None, out: "Optional[Array]" = None, *,
                scale: float = 0.0) -> None:
        self.op("softmax", x, mask, out, scale=scale)

    @overload
    def rms_norm(self, x: "Array", weight: "Optional[Array]", out: "Array", *, eps: float = ...) -> None: ...

    @overload
    def rms_norm(self, x: "Array", *, weight: "Optional[Array]" = ..., out: "Array", eps: float = ...) -> None: ...

    def rms_norm(self, x: "Array", weight: "Optional[Array]" = None, out: "Optional[Array]" = None, *,
                 eps: float = 0.0) -> None:
        self.op("rms_norm", x, weight, out, eps=eps)

    def l2_norm(self, x: "Array", out: "Array", *, eps: float = 0.0) -> None:
        self.op("l2_norm", x, out, eps=eps)

    @overload
    def layer_norm(self, x: "Array", weight: "Optional[Array]", bias: "Optional[Array]", out: "Array", *,
                   eps: float = ...) -> None: ...

    @overload
    def layer_norm(self, x: "Array", *, weight: "Optional[Array]" = ..., bias: "Optional[Array]" = ...,
                   out: "Array", eps: float = ...) -> None: ...

    def layer_norm(self, x: "Array", weight: "Optional[Array]" = None, bias: "Optional[Array]" = None,
                   out: "Optional[Array]" = None, *, eps: float = 0.0) -> None:
        self.op("layer_norm", x, weight, bias, out, eps=eps)

    @overload
    def add_rms_norm(self, x: "Array", residual: "Array", weight: "Optional[Array]", sum: "Array",
                     out: "Array", *, eps: float = ...) -> None: ...

    @overload
    def add_rms_norm(self, x: "Array", residual: "Array", *, weight: "Optional[Array]" = ..., sum: "Array",
                     out: "Array", eps: float = ...) -> None: ...

    def add_rms_norm(self, x: "Array", residual: "Array", weight: "Optional[Array]" = None,
                     sum: "Optional[Array]" = None, out: "Optional[Array]" = None, *, eps: float = 0.0) -> None:
        self.op("add_rms_norm", x, residual, weight, sum, out, eps=eps)

    @overload
    def norm_add(self, x: "Array", weight: "Optional[Array]", residual: "Array", out: "Array", *,
                 eps: float = ...) -> None: ...

    @overload
    def norm_add(self, x: "Array", *, weight: "Optional[Array]" = ..., residual: "Array", out: "Array",
                 eps: float = ...) -> None: ...

    def norm_add(self, x: "Array", weight: "Optional[Array]" = None, residual: "Optional[Array]" = None,
                 out: "Optional[Array]" = None, *, eps: float = 0.0) -> None:
        self.op("norm_add", x, weight, residual, out, eps=eps)

    def matmul(self, x: "Array", weight: "Array", out: "Array") -> None:
        self.op("matmul", x, weight, out)

    def matmul_id(self, x: "Array", weight: "Array", ids: "Array", out: "Array") -> None:
        self.op("matmul_id", x, weight, ids, out)

    def gather(self, x: "Array", indices: "Array", out: "Array") -> None:
        self.op("gather", x, indices, out)

    def transpose(self, x: "Array", out: "Array", *, keep_last: bool = False) -> None:
        self.op("transpose", x, out, keep_last=keep_last)

    def slice(self, x: "Array", out: "Array", *, start: int = 0) -> None:
        self.op("slice", x, out, start=start)

    def put(self, x: "Array", into: "Array", *, start: int = 0) -> None:
        self.op("put", x, into, start=start)

    def concat(self, a: "Array", b: "Array", out: "Array") -> None:
        self.op("concat", a, b, out)

    def top_k(self, x: "Array", values: "Array", ids: "Array") -> None:
        self.op("top_k", x, values, ids)

    def embed(self, table: "Array", tokens: "Array", out: "Array", *, scale: float = 0.0) -> None:
        self.op("embed", table, tokens, out, scale=scale)

    @overload
    def rope(self, x: "Array", positions: "Array", freq_factors: "Optional[Array]", out: "Array", *,
             theta: float = ..., rope_mode: Literal["interleaved", "neox"] = ..., rope_dim: int = ...) -> None: ...

    @overload
    def rope(self, x: "Array", positions: "Array", *, freq_factors: "Optional[Array]" = ..., out: "Array",
             theta: float = ..., rope_mode: Literal["interleaved", "neox"] = ..., rope_dim: int = ...) -> None: ...

    def rope(self, x: "Array", positions: "Array", freq_factors: "Optional[Array]" = None,
             out: "Optional[Array]" = None, *, theta: float = 0.0,
             rope_mode: Literal["interleaved", "neox"] = "interleaved", rope_dim: int = 0) -> None:
        self.op("rope", x, positions, freq_factors, out, theta=theta, rope_mode=rope_mode, rope_dim=rope_dim)

    @overload
    def attention(self, q: "Array", k: "Array", v: "Array", sinks: "Optional[Array]", out: "Array", *,
                  scale: float = ..., cap: float = ..., kv_len: int = ..., window: int = ...,
                  full: bool = ...) -> None: ...

    @overload
    def attention(self, q: "Array", k: "Array", v: "Array", *, sinks: "Optional[Array]" = ..., out: "Array",
                  scale: float = ..., cap: float = ..., kv_len: int = ..., window: int = ...,
                  full: bool = ...) -> None: ...

    def attention(self, q: "Array", k: "Array", v: "Array", sinks: "Optional[Array]" = None,
                  out: "Optional[Array]" = None, *, scale: float = 0.0, cap: float = 0.0, kv_len: int = 0,
                  window: int = 0, full: bool = False) -> None:
        self.op("attention", q, k, v, sinks, out, scale=scale, cap=cap, kv_len=kv_len, window=window, full=full)
