// What the kernel of callers_kernel.cu and its CPU twin agree on.
#pragma once

// One thread per element, groups of 64, rotated and turned around within the group:
//   out[i] = in[j] * factors[j % 1024] + picks[k % 1024] + shift
// where j is the next element of the group (behind the last comes the first), and k the element as
// far from the group's end as i is from its begin.
struct MixParams {
  float shift;
};

enum MixSlot : unsigned { mix_in = 2, mix_factors = 5, mix_out = 17, mix_picks = 30 };
enum MixGroupSlot : unsigned { mix_scaled = 1, mix_picked = 4 };
constexpr unsigned mix_table = 1024;  // elements of a table: 4 KiB
constexpr unsigned mix_group = 64;    // threads of a group
