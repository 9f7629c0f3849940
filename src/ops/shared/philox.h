// Philox4x32-10: random numbers as a function of a key and a counter.
#ifndef ONEPASS_OPS_SHARED_PHILOX_H_
#define ONEPASS_OPS_SHARED_PHILOX_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

struct OpPhilox {
  op_u32 x, y, z, w;
};

// Upper half of the product, by halves of 16 bits.
OP_FN op_u32 op_mul_high(op_u32 a, op_u32 b) {
  op_u32 al = a & 0xffffu, ah = a >> 16, bl = b & 0xffffu, bh = b >> 16;
  op_u32 low = (al * bl) >> 16;
  op_u32 middle = ah * bl + low;
  op_u32 middle2 = al * bh + (middle & 0xffffu);
  return ah * bh + (middle >> 16) + (middle2 >> 16);
}

OP_FN OpPhilox op_philox(OpPhilox counter, op_u32 key_lo, op_u32 key_hi) {
  OpPhilox c = counter;
  for (int round = 0; round < 10; ++round) {
    OpPhilox n;
    n.x = op_mul_high(0xcd9e8d57u, c.z) ^ c.y ^ key_lo;
    n.y = 0xcd9e8d57u * c.z;
    n.z = op_mul_high(0xd2511f53u, c.x) ^ c.w ^ key_hi;
    n.w = 0xd2511f53u * c.x;
    c = n;
    key_lo += 0x9e3779b9u;
    key_hi += 0xbb67ae85u;
  }
  return c;
}

// 24 bits as a number in [0, 1).
OP_FN float op_unit(op_u32 bits) { return op_from_uint(bits >> 8) * 5.96046448e-8f; }

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_SHARED_PHILOX_H_
