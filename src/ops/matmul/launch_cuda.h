// What the launch arithmetic and the CUDA kernels of this family agree on.
#ifndef ONEPASS_OPS_MATMUL_CUDA_SHAPE_H_
#define ONEPASS_OPS_MATMUL_CUDA_SHAPE_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

// Launch::spec
enum MatmulValue : op_u32 {
  matmul_by_pair,  // 1: matmul_id
  // Of the mat-vec kernels for any number of rows:
  matmul_team,    // log2 of the threads that share two weight rows
  matmul_rounds,  // sets of rows that a team computes before its block may stop
  matmul_rows,    // rows of x in shared memory
};

// Launch::variant
enum MatmulVariant : op_u32 {
  variant_vector,  // one row of x
  variant_rows,    // 2, 4 or 8 rows of x
  variant_any,     // any alignment and width
  variant_tile,    // many rows, tensor cores
  // One aligned row of x, packed weights; matmul_line_rows() and matmul_line_warps().
  variant_line_1,
  variant_line_2,
  variant_line_2_deep,
  variant_line_4,
  variant_line_1_by_2,
  variant_line_2_by_4,
  variant_gate_1,  // gates only
  variant_gate_2,
  // The same for a row of f32 that is normed first; a block goes on to further sets.
  variant_norm_1,
  variant_norm_2,
  variant_norm_4,
  variant_norm_gate_1,  // quantized gates only
  variant_norm_gate_2,
};

// Outputs that a set of warps computes, and the warps of the set. A block has up to 8 warps, 16 for
// normed rows; with a quantized output those of 32 columns.
OP_FN constexpr op_u32 matmul_line_rows(op_u32 variant) {
  switch (variant) {
    case variant_line_4:
    case variant_norm_4:
      return 4;
    case variant_line_1:
    case variant_line_1_by_2:
    case variant_gate_1:
    case variant_norm_1:
    case variant_norm_gate_1:
      return 1;
    default:
      return 2;
  }
}
OP_FN constexpr op_u32 matmul_line_warps(op_u32 variant) {
  return variant == variant_line_2_by_4 ? 4 : variant == variant_line_1_by_2 ? 2 : 1;
}

// Bytes of a row of k values of x in shared memory, 16-byte aligned.
OP_FN op_u32 matmul_x_bytes(bool quantized, op_u32 k) {
  return quantized ? (k / 32 * 40 + 15) / 16 * 16 : k * 4;
}

// Partial sums of a block's warps for `rows` rows of x, and a block of 32 gated columns.
OP_FN op_u32 matmul_sum_bytes(op_u32 threads, op_u32 rows) {
  return (2 * (threads / 32) * 2 + 2 * 32) * rows * 4;
}

// variant_tile: blocks of warps_m * 32 rows of x and warps_n * 64 weight rows, in steps of 64
// values. bits: of a number; high: bytes of a row's further bits in a step; factors: f32 numbers
// per 32 values.
OP_FN constexpr op_u32 matmul_tile_bytes(op_u32 warps_m, op_u32 warps_n, op_u32 bits, op_u32 high,
                                         op_u32 factors) {
  return 3 * (32 * warps_m * (64 + 16 + 16) + 64 * warps_n * (8 * bits + 16 + high)) +
         2 * 2 * 64 * warps_n * factors * 4;
}

// The same for plain weights of `size` bytes, in steps of 32 values.
OP_FN constexpr op_u32 matmul_float_tile_bytes(op_u32 warps_m, op_u32 warps_n, op_u32 size) {
  return 3 * (32 * warps_m * (128 + 32) + 64 * warps_n * (32 * size + (size == 4 ? 32 : 16)));
}

// variant_any: a block of 4 warps computes 32 columns of up to 4 rows.
enum MatmulAny : op_u32 { any_columns = 32, any_rows = 4, any_threads = 128 };

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_MATMUL_CUDA_SHAPE_H_
