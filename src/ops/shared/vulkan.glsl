// What every Vulkan kernel begins with (docs/adr/0020-vulkan-rows.md). Before it: OP_GLSL, the
// family's params.h, and OP_PARAMS, the struct of the op.
#ifndef ONEPASS_OPS_SHARED_VULKAN_GLSL_
#define ONEPASS_OPS_SHARED_VULKAN_GLSL_

#include "ops/shared/scalar.h"

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(constant_id = 3) const uint bound_views = 0u;
#define OP_VALUE(index, type, name) layout(constant_id = 4 + index) const type name = type(0);

layout(push_constant, std430) uniform Arguments {
  OP_PARAMS params;
  layout(offset = 112) uvec4 residues;  // bytes, view i's: how far into its binding it begins
};

bool is_bound(uint view) { return (bound_views >> view & 1u) != 0u; }
uint residue(uint view) { return residues[view >> 2u] >> (view % 4u * 8u) & 0xffu; }

#define VULKAN_FORMAT(name, number) const uint type_##name = number;
#include "ops/shared/vulkan_formats.def"

// As op_f16_to_f32, without f32's subnormals, which a device may take for 0.
float half_to_float(uint h) {
  uint e = h >> 10u & 31u, m = h & 0x3ffu;
  float x = e == 0u    ? float(m) * 5.96046448e-8f
            : e == 31u ? uintBitsToFloat(0x7f800000u | m << 13u)
                       : uintBitsToFloat(e + 112u << 23u | m << 13u);
  return (h & 0x8000u) != 0u ? -x : x;
}
float short_to_float(uint type, uint h) {
  return type == type_f16 ? half_to_float(h) : op_bf16_to_f32(h);
}
uint float_to_short(uint type, float x) {
  return type == type_f16 ? op_f32_to_f16(x) : op_f32_to_bf16(x);
}
// The value as the type keeps it.
float kept(uint type, float x) {
  return type == type_f32 ? x : short_to_float(type, float_to_short(type, x));
}

uint flat_thread() { return gl_GlobalInvocationID.x; }
uint flat_threads() { return gl_NumWorkGroups.x * gl_WorkGroupSize.x; }

// A view that is read. Functions take elements, words, halves or bytes of the view; words and
// floats are at multiples of 4 bytes of its binding, halves at multiples of 2.
#define OP_READS(view, name)                                                                   \
  layout(set = 0, binding = view + 1, std430) readonly buffer name##_view { uint name##_[]; }; \
  OP_LOADS(view, name)
#define OP_LOADS(view, name)                                                                   \
  uint name##_words() { return uint(name##_.length()) - (residue(view) >> 2u); }               \
  uint name##_word(uint i) { return name##_[(residue(view) >> 2u) + i]; }                      \
  float name##_float(uint i) { return uintBitsToFloat(name##_word(i)); }                       \
  uint name##_half(uint i) {                                                                   \
    uint at = residue(view) + 2u * i;                                                          \
    return name##_[at >> 2u] >> ((at & 2u) * 8u) & 0xffffu;                                    \
  }                                                                                            \
  uint name##_byte(uint i) {                                                                   \
    uint at = residue(view) + i;                                                               \
    return name##_[at >> 2u] >> ((at & 3u) * 8u) & 0xffu;                                      \
  }                                                                                            \
  float name##_load(uint type, uint i) {                                                       \
    return type == type_f32 ? name##_float(i) : short_to_float(type, name##_half(i));          \
  }

// A view that is written, perhaps read as well. Parts of a word are changed in two steps that leave
// the rest of it alone, whoever else changes that.
#define OP_WRITES(view, name)                                                          \
  layout(set = 0, binding = view + 1, std430) buffer name##_view { uint name##_[]; };  \
  OP_LOADS(view, name)                                                                 \
  void name##_set_word(uint i, uint x) { name##_[(residue(view) >> 2u) + i] = x; }     \
  void name##_set_float(uint i, float x) { name##_set_word(i, floatBitsToUint(x)); }   \
  void name##_set_part(uint at, uint mask, uint x) {                                   \
    uint shift = (at & 3u) * 8u;                                                       \
    atomicAnd(name##_[at >> 2u], ~(mask << shift));                                    \
    atomicOr(name##_[at >> 2u], x << shift);                                           \
  }                                                                                    \
  void name##_set_half(uint i, uint x) {                                               \
    name##_set_part(residue(view) + 2u * i, 0xffffu, x);                               \
  }                                                                                    \
  void name##_set_byte(uint i, uint x) { name##_set_part(residue(view) + i, 0xffu, x); } \
  void name##_store(uint type, uint i, float x) {                                      \
    if (type == type_f32) {                                                            \
      name##_set_float(i, x);                                                          \
    } else {                                                                           \
      name##_set_half(i, float_to_short(type, x));                                     \
    }                                                                                  \
  }

// Results of a group's threads, 256 at most, combined in a tree over their numbers: the bits do not
// depend on the size of subgroups. Every thread gets the result.
shared float group_values_[256];
#define OP_GROUP_TREE(name, combine)                             \
  float name(float x) {                                          \
    uint me = gl_LocalInvocationID.x;                            \
    barrier();                                                   \
    group_values_[me] = x;                                       \
    for (uint n = gl_WorkGroupSize.x; n > 1u;) {                 \
      uint upper = (n + 1u) / 2u;                                \
      barrier();                                                 \
      if (me + upper < n) {                                      \
        float a = group_values_[me], b = group_values_[me + upper]; \
        group_values_[me] = combine;                             \
      }                                                          \
      n = upper;                                                 \
    }                                                            \
    barrier();                                                   \
    return group_values_[0];                                     \
  }
OP_GROUP_TREE(group_sum, a + b)
OP_GROUP_TREE(group_max, max(a, b))

#endif  // ONEPASS_OPS_SHARED_VULKAN_GLSL_
