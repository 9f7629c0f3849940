// Code up to end_isa.h is compiled for every machine.
#define OP_ISA base
#define OP_ISA_FEATURE 0u
#define OP_ISA_POP 0
#include "ops/shared/simd16_base.h"
