// Rotations of pairs of elements. Before it: ops/rope/params.h and OP_READS(.., factors).

// Cosine (hi) and sine (lo) of pair i at a position.
OpPair rotation(RopeAngles a, uint i, uint position, bool has_factors) {
  float factor = has_factors ? factors_float(i) : 1.0;
  OpPair frequency = op_rope_frequency(i, a.ratio_hi, a.ratio_lo, factor);
  if (a.ext_factor != 0.0) {
    OpPair scale = op_yarn_scale(i, a.freq_scale, a.ext_factor, a.yarn_low, a.yarn_range);
    frequency = op_pair_mul(frequency, scale);
  } else {
    frequency = op_pair_mul(frequency, op_pair(a.freq_scale, 0.0));
  }
  OpPair turn = op_cos_sin_turns(op_turns(frequency, position));
  return op_pair(turn.hi * a.magnitude, turn.lo * a.magnitude);
}

// The rest-th element of a head that no pair has.
uint rest_element(RopeAngles a, uint rest) {
  if (a.step != 1u) return 2u * a.pairs + rest;
  uint between = a.distance - a.pairs;
  return rest < between ? a.pairs + rest : 2u * a.pairs + rest;
}
