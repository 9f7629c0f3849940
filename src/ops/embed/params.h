#ifndef ONEPASS_OPS_EMBED_PARAMS_H_
#define ONEPASS_OPS_EMBED_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

struct EmbedParams {
  op_u32 rows;
  op_u32 vocab;
  op_u32 dim;
  op_u32 tokens_are_u32;  // else a StepState
  float scale;
};

struct EmbedAffineParams {
  op_u32 rows;
  op_u32 vocab;
  op_u32 dim;
  op_u32 tokens_are_u32;
  float scale;
  op_u32 bits;
  op_u32 group_size;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_EMBED_PARAMS_H_
