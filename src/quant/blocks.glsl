// Values of weights in rows, 32 at a time: the formulas of dequantize() in this folder. Before it:
// ops/shared/vulkan.glsl and a view `weight`; `format` is a number of
// ops/shared/vulkan_formats.def.
// Four bytes from any place.
uint weight_bytes(uint i) {
  uint at = residue(WEIGHT_VIEW) + i, shift = (at & 3u) * 8u;
  uint low = weight_[at >> 2u];
  return shift == 0u ? low : low >> shift | weight_[(at >> 2u) + 1u] << 32u - shift;
}
// i is even.
float weight_f16(uint i) { return half_to_float(weight_half(i / 2u)); }

const int iq4_values[16] =
    int[16](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
const int fp4_values[16] = int[16](0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

// The scale (x) and the minimum (y) of sub-block j of q4_k and q5_k; their bytes begin at `at`.
uvec2 k_scales(uint at, uint j) {
  if (j < 4u) return uvec2(weight_byte(at + j) & 63u, weight_byte(at + j + 4u) & 63u);
  uint both = weight_byte(at + j + 4u);
  return uvec2((both & 15u) | weight_byte(at + j - 4u) >> 6u << 4u,
               both >> 4u | weight_byte(at + j) >> 6u << 4u);
}

int q3_scale(uint at, uint j) {
  uint low = j < 8u ? weight_byte(at + j) & 15u : weight_byte(at + j - 8u) >> 4u;
  uint high = weight_byte(at + 8u + j % 4u) >> 2u * (j / 4u) & 3u;
  return int(low | high << 4u) - 32;
}

float e8m0(uint e) { return uintBitsToFloat(e < 2u ? 0x200000u << e : e - 1u << 23u); }
float e4m3_half(uint code) {
  if (code == 127u) return 0.0;
  uint exponent = code >> 3u & 15u, mantissa = code & 7u;
  float number = exponent == 0u ? float(mantissa) : float((8u | mantissa) << exponent - 1u);
  return number * 0.0009765625;
}

// Digit n of a byte: 0, 1 or 2.
uint trit(uint byte, uint n) {
  for (uint i = 0u; i < n; ++i) byte = byte * 3u & 255u;
  return byte * 3u >> 8u;
}
uint tq1_number(uint at, uint e) {
  if (e < 160u) return trit(weight_byte(at + e % 32u), e / 32u);
  if (e < 240u) return trit(weight_byte(at + 32u + e % 16u), (e - 160u) / 16u);
  return trit(weight_byte(at + 48u + e % 4u), (e - 240u) / 4u);
}

// Formats of blocks of 32 values: that at byte `at`.
void values_of_32(uint format, uint at, out float v[32]) {
  if (format == type_q8_0) {
    float d = weight_f16(at);
    for (uint w = 0u; w < 8u; ++w) {
      uint q = weight_bytes(at + 2u + 4u * w);
      for (uint b = 0u; b < 4u; ++b) v[4u * w + b] = float(int(q << 24u - 8u * b) >> 24) * d;
    }
    return;
  }
  float d = format == type_mxfp4 ? e8m0(weight_byte(at)) : weight_f16(at);
  bool has_minimum = format == type_q4_1 || format == type_q5_1;
  bool has_fifth = format == type_q5_0 || format == type_q5_1;
  float m = has_minimum ? weight_f16(at + 2u) : 0.0;
  uint head = format == type_mxfp4 ? 1u : has_minimum ? 4u : 2u;
  uint fifth = has_fifth ? weight_bytes(at + head) : 0u;
  if (has_fifth) head += 4u;
  float zero = format == type_q4_0 ? 8.0 : format == type_q5_0 ? 16.0 : 0.0;
  for (uint w = 0u; w < 4u; ++w) {
    uint q = weight_bytes(at + head + 4u * w);
    for (uint b = 0u; b < 8u; ++b) {
      uint e = 4u * w + b % 4u + 16u * (b / 4u);
      uint n = q >> 8u * (b % 4u) + 4u * (b / 4u) & 15u;
      n |= (fifth >> e & 1u) << 4u;
      if (format == type_iq4_nl) {
        v[e] = d * float(iq4_values[n]);
      } else if (format == type_mxfp4) {
        v[e] = d * float(fp4_values[n]);
      } else if (has_minimum) {
        v[e] = float(n) * d + m;
      } else {
        v[e] = (float(n) - zero) * d;
      }
    }
  }
}

// Formats of larger blocks: values [32 j, 32 j + 32) of that at byte `at`.
void values_of_part(uint format, uint at, uint j, out float v[32]) {
  if (format == type_q4_k || format == type_q5_k) {
    uvec2 sub = k_scales(at + 4u, j);
    float scale = weight_f16(at) * float(sub.x), minimum = weight_f16(at + 2u) * float(sub.y);
    bool five = format == type_q5_k;
    uint qs = at + (five ? 48u : 16u) + 32u * (j / 2u);
    for (uint w = 0u; w < 8u; ++w) {
      uint q = weight_bytes(qs + 4u * w) >> 4u * (j % 2u) & 0x0f0f0f0fu;
      if (five) q |= (weight_bytes(at + 16u + 4u * w) >> j & 0x01010101u) << 4u;
      for (uint b = 0u; b < 4u; ++b) {
        v[4u * w + b] = scale * float(q >> 8u * b & 31u) - minimum;
      }
    }
  } else if (format == type_q6_k) {
    float d = weight_f16(at + 208u);
    uint half_block = j / 4u, s = j % 4u;
    for (uint w = 0u; w < 8u; ++w) {
      uint low = weight_bytes(at + 64u * half_block + 32u * (s % 2u) + 4u * w);
      uint high = weight_bytes(at + 128u + 32u * half_block + 4u * w);
      uint q = (low >> 4u * (s / 2u) & 0x0f0f0f0fu) | (high >> 2u * s & 0x03030303u) << 4u;
      int sub = int(weight_byte(at + 192u + 2u * j + w / 4u) << 24u) >> 24;
      float scale = d * float(sub);
      for (uint b = 0u; b < 4u; ++b) v[4u * w + b] = scale * (float(q >> 8u * b & 63u) - 32.0);
    }
  } else if (format == type_q2_k) {
    float d = weight_f16(at + 80u), dmin = weight_f16(at + 82u);
    for (uint w = 0u; w < 8u; ++w) {
      uint both = weight_byte(at + 2u * j + w / 4u);
      float scale = d * float(both & 15u), offset = dmin * float(both >> 4u);
      uint q = weight_bytes(at + 16u + 32u * (j / 4u) + 4u * w) >> 2u * (j % 4u);
      for (uint b = 0u; b < 4u; ++b) v[4u * w + b] = scale * float(q >> 8u * b & 3u) - offset;
    }
  } else if (format == type_q3_k) {
    float d = weight_f16(at + 108u);
    for (uint w = 0u; w < 8u; ++w) {
      float scale = d * float(q3_scale(at + 96u, 2u * j + w / 4u));
      uint low = weight_bytes(at + 32u + 32u * (j / 4u) + 4u * w) >> 2u * (j % 4u) & 0x03030303u;
      uint q = low | (weight_bytes(at + 4u * w) >> j & 0x01010101u) << 2u;
      for (uint b = 0u; b < 4u; ++b) v[4u * w + b] = scale * (float(q >> 8u * b & 7u) - 4.0);
    }
  } else if (format == type_iq4_xs) {
    uint high = weight_half(at / 2u + 1u);
    uint low = weight_byte(at + 4u + j / 2u) >> 4u * (j % 2u) & 15u;
    float scale = weight_f16(at) * float(int(low | (high >> 2u * j & 3u) << 4u) - 32);
    for (uint w = 0u; w < 4u; ++w) {
      uint q = weight_bytes(at + 8u + 16u * j + 4u * w);
      for (uint b = 0u; b < 4u; ++b) {
        v[4u * w + b] = scale * float(iq4_values[q >> 8u * b & 15u]);
        v[16u + 4u * w + b] = scale * float(iq4_values[q >> 8u * b + 4u & 15u]);
      }
    }
  } else if (format == type_nvfp4) {
    for (uint e = 0u; e < 32u; ++e) {
      uint s = 2u * j + e / 16u;
      uint n = weight_byte(at + 4u + 8u * s + e % 8u) >> 4u * (e % 16u / 8u) & 15u;
      v[e] = e4m3_half(weight_byte(at + s)) * float(fp4_values[n]);
    }
  } else if (format == type_tq1_0) {
    float d = weight_f16(at + 52u);
    for (uint e = 0u; e < 32u; ++e) v[e] = (float(tq1_number(at, 32u * j + e)) - 1.0) * d;
  } else if (format == type_tq2_0) {
    float d = weight_f16(at + 64u);
    for (uint w = 0u; w < 8u; ++w) {
      uint q = weight_bytes(at + 32u * (j / 4u) + 4u * w) >> 2u * (j % 4u);
      for (uint b = 0u; b < 4u; ++b) v[4u * w + b] = (float(q >> 8u * b & 3u) - 1.0) * d;
    }
  } else if (format == type_q1_0) {
    float d = weight_f16(at);
    uint q = weight_bytes(at + 2u + 4u * j);
    for (uint e = 0u; e < 32u; ++e) v[e] = (2.0 * float(q >> e & 1u) - 1.0) * d;
  } else {  // q2_0
    float d = weight_f16(at);
    for (uint w = 0u; w < 2u; ++w) {
      uint q = weight_bytes(at + 2u + 8u * j + 4u * w);
      for (uint b = 0u; b < 16u; ++b) v[16u * w + b] = (float(q >> 2u * b & 3u) - 1.0) * d;
    }
  }
}

// Values [32 i, 32 i + 32) of a row of `cols`; blocks have so many elements and bytes, single
// numbers one. Zeros beyond the end of the row.
void weight_values(uint format, uint block_elements, uint block_bytes, uint row, uint cols, uint i,
                   out float v[32]) {
  if (block_elements == 1u) {
    uint first = row * cols + 32u * i, n = min(cols - 32u * i, 32u);
    for (uint e = 0u; e < 32u; ++e) v[e] = e < n ? weight_load(format, first + e) : 0.0;
    return;
  }
  uint block = row * (cols / block_elements) + 32u * i / block_elements;
  if (block_elements == 32u) {
    values_of_32(format, block * block_bytes, v);
  } else {
    values_of_part(format, block * block_bytes, i % (block_elements / 32u), v);
  }
}
