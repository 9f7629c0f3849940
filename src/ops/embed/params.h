#ifndef ONEPASS_OPS_EMBED_PARAMS_H_
#define ONEPASS_OPS_EMBED_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

struct EmbedParams {
  op_u32 rows;
  op_u32 vocab;
  op_u32 dim;
  op_u32 tokens_are_u32;  // else a StepState
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_EMBED_PARAMS_H_
