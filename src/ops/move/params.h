#ifndef ONEPASS_OPS_MOVE_PARAMS_H_
#define ONEPASS_OPS_MOVE_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

struct CopyParams {
  op_u32 bytes_lo, bytes_hi;
};

struct GatherParams {
  op_u32 rows;         // of out
  op_u32 source_rows;  // of x
  op_u32 row_bytes;
  op_u32 first_row, bound_rows;  // of x, 0: all; rows of others are left alone
};

// [batch, rows, cols, unit] -> [batch, cols, rows, unit].
struct TransposeParams {
  op_u32 batch;
  op_u32 rows;
  op_u32 cols;
  op_u32 unit;  // bytes
};

// Per row, bytes [from, from + bytes) of x go to [to, to + bytes) of the output.
struct ColumnsParams {
  op_u32 rows;
  op_u32 from, from_stride;
  op_u32 to, to_stride;
  op_u32 bytes;
};

struct ConcatParams {
  op_u32 rows;
  op_u32 a_bytes;  // per row
  op_u32 b_bytes;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_MOVE_PARAMS_H_
