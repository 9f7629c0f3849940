// Rows of a cache of f32, f16 or q8_0: one head at one position.
#define OP_CACHE_LOADS(name)                                                              \
  float name##_cache_value(uint type, uint row, uint dim, uint e) {                       \
    if (type != type_q8_0) return name##_load(type, row * dim + e);                       \
    uint block = (row * (dim / 32u) + e / 32u) * 34u;                                     \
    int q = int(name##_byte(block + 2u + e % 32u) << 24u) >> 24;                          \
    return float(q) * half_to_float(name##_half(block / 2u));                             \
  }

// `value(from + e)` is element e of the row. Every thread of a group calls it.
#define OP_CACHE_STORES(name, value)                                                      \
  void name##_store_row(uint type, uint row, uint dim, uint from) {                       \
    uint me = gl_LocalInvocationID.x, threads = gl_WorkGroupSize.x;                       \
    if (type != type_q8_0) {                                                              \
      for (uint e = me; e < dim; e += threads) name##_store(type, row * dim + e, value(from + e)); \
      return;                                                                             \
    }                                                                                     \
    for (uint b = me; b < dim / 32u; b += threads) {                                      \
      float top = 0.0;                                                                    \
      for (uint e = 0u; e < 32u; ++e) {                                                   \
        float a = abs(value(from + 32u * b + e));                                         \
        top = a > top ? a : top;                                                          \
      }                                                                                   \
      float d = top / 127.0, inverse = d != 0.0 ? 1.0 / d : 0.0;                          \
      uint at = (row * (dim / 32u) + b) * 17u;                                            \
      name##_set_half(at, op_f32_to_f16(d));                                              \
      for (uint e = 0u; e < 16u; ++e) {                                                   \
        uint low = q8_number(value(from + 32u * b + 2u * e) * inverse);                   \
        uint high = q8_number(value(from + 32u * b + 2u * e + 1u) * inverse);             \
        name##_set_half(at + 1u + e, low | high << 8u);                                   \
      }                                                                                   \
    }                                                                                     \
  }

// As quant/q8_0.h rounds.
uint q8_number(float t) {
  t = t > -127.0 ? t : -127.0;
  t = t < 127.0 ? t : 127.0;
  return uint(int(t < 0.0 ? t - 0.5 : t + 0.5)) & 0xffu;
}
