#ifndef ONEPASS_OPS_EMBED_PARAMS_H_
#define ONEPASS_OPS_EMBED_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

const op_u32 embed_by_token = 0u;     // of a StepState
const op_u32 embed_by_u32 = 1u;       // u32 [rows]
const op_u32 embed_by_position = 2u;  // of a StepState
struct EmbedParams {
  op_u32 rows;
  op_u32 vocab;
  op_u32 dim;
  op_u32 index;  // what chooses a row of the table
  float scale;
  // The rows of the table that are bound; bound_rows 0: all. Outputs of tokens in other rows are
  // not written; those of tokens beyond the vocabulary are zeroed by the part that has row 0.
  op_u32 first_row, bound_rows;
};

struct EmbedAffineParams {
  op_u32 rows;
  op_u32 vocab;
  op_u32 dim;
  op_u32 index;
  float scale;
  op_u32 bits;
  op_u32 group_size;
  op_u32 first_row, bound_rows;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_EMBED_PARAMS_H_
