// Bytes that change places, in units as wide as all places and sizes allow; a thread has a unit.
// MOVE: 0 copy, 1 gather, 2 transpose, 3 slice and put, 4 concat.
#version 450
#define OP_GLSL
#include "ops/move/params.h"
#if MOVE == 0
#define OP_PARAMS CopyParams
#elif MOVE == 1
#define OP_PARAMS GatherParams
#elif MOVE == 2
#define OP_PARAMS TransposeParams
#elif MOVE == 3
#define OP_PARAMS ColumnsParams
#else
#define OP_PARAMS ConcatParams
#endif
#include "ops/shared/vulkan.glsl"

OP_VALUE(0, uint, unit)  // 4, 2 or 1

OP_READS(0, x)
#if MOVE == 1
OP_READS(1, rows)
OP_WRITES(2, result)
#elif MOVE == 4
OP_READS(1, y)
OP_WRITES(2, result)
#else
OP_WRITES(1, result)
#endif

uint load(uint i) { return unit == 4u ? x_word(i) : unit == 2u ? x_half(i) : x_byte(i); }
void store(uint i, uint value) {
  if (unit == 4u) {
    result_set_word(i, value);
  } else if (unit == 2u) {
    result_set_half(i, value);
  } else {
    result_set_byte(i, value);
  }
}

#if MOVE == 0
uint count() { return params.bytes_lo / unit; }
void move(uint i) { store(i, load(i)); }
#elif MOVE == 1
uint count() { return params.rows * (params.row_bytes / unit); }
void move(uint i) {
  uint width = params.row_bytes / unit, row = min(rows_word(i / width), params.source_rows - 1u);
  uint bound = params.bound_rows != 0u ? params.bound_rows : params.source_rows;
  if (row - params.first_row < bound) store(i, load((row - params.first_row) * width + i % width));
}
#elif MOVE == 2
uint count() { return params.batch * params.rows * params.cols * (params.unit / unit); }
void move(uint i) {
  uint width = params.unit / unit, part = i % width, at = i / width;
  uint row = at % params.rows, col = at / params.rows % params.cols;
  uint batch = at / (params.rows * params.cols);
  store(i, load(((batch * params.rows + row) * params.cols + col) * width + part));
}
#elif MOVE == 3
uint count() { return params.rows * (params.bytes / unit); }
void move(uint i) {
  uint width = params.bytes / unit, row = i / width, part = i % width;
  store((row * params.to_stride + params.to) / unit + part,
        load((row * params.from_stride + params.from) / unit + part));
}
#else
uint count() { return params.rows * ((params.a_bytes + params.b_bytes) / unit); }
void move(uint i) {
  uint a = params.a_bytes / unit, b = params.b_bytes / unit, row = i / (a + b), part = i % (a + b);
  if (part < a) {
    store(i, load(row * a + part));
    return;
  }
  uint at = row * b + part - a;
  store(i, unit == 4u ? y_word(at) : unit == 2u ? y_half(at) : y_byte(at));
}
#endif

void main() {
  uint n = count();
  for (uint i = flat_thread(); i < n; i += flat_threads()) move(i);
}
