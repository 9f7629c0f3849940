// Every block format, and the list of them: ONEPASS_BLOCK_FORMATS(X) is X(format, Block) for each.
#ifndef ONEPASS_QUANT_BLOCKS_H_
#define ONEPASS_QUANT_BLOCKS_H_

#include "quant/iq1_m.h"
#include "quant/iq1_s.h"
#include "quant/iq2_s.h"
#include "quant/iq2_xs.h"
#include "quant/iq2_xxs.h"
#include "quant/iq3_s.h"
#include "quant/iq3_xxs.h"
#include "quant/iq4_nl.h"
#include "quant/iq4_xs.h"
#include "quant/k_quantize.h"
#include "quant/mxfp4.h"
#include "quant/nvfp4.h"
#include "quant/q1_0.h"
#include "quant/q2_0.h"
#include "quant/q2_k.h"
#include "quant/q3_k.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"
#include "quant/tq1_0.h"
#include "quant/tq2_0.h"

#define ONEPASS_BLOCK_FORMATS(X) \
  X(q4_0, BlockQ4_0)             \
  X(q8_0, BlockQ8_0)             \
  X(q4_1, BlockQ4_1)             \
  X(q5_0, BlockQ5_0)             \
  X(q5_1, BlockQ5_1)             \
  X(q2_k, BlockQ2_K)             \
  X(q3_k, BlockQ3_K)             \
  X(q4_k, BlockQ4_K)             \
  X(q5_k, BlockQ5_K)             \
  X(q6_k, BlockQ6_K)             \
  X(iq3_s, BlockIQ3_S)           \
  X(iq3_xxs, BlockIQ3_XXS)       \
  X(iq2_xs, BlockIQ2_XS)         \
  X(iq2_s, BlockIQ2_S)           \
  X(iq2_xxs, BlockIQ2_XXS)       \
  X(iq1_s, BlockIQ1_S)           \
  X(iq1_m, BlockIQ1_M)           \
  X(iq4_nl, BlockIQ4_NL)         \
  X(iq4_xs, BlockIQ4_XS)         \
  X(mxfp4, BlockMXFP4)           \
  X(nvfp4, BlockNVFP4)           \
  X(tq1_0, BlockTQ1_0)           \
  X(tq2_0, BlockTQ2_0)           \
  X(q1_0, BlockQ1_0)             \
  X(q2_0, BlockQ2_0)

namespace onepass::quant {

inline constexpr int max_block_elements = 256;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_BLOCKS_H_
