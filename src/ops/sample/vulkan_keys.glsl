// Numbers as integers of the same order; what is not a number is 0, and -0 is 0.
uint key_order(float value) {
  uint bits = floatBitsToUint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0u;
  if ((bits & 0x7fffffffu) == 0u) bits = 0u;
  return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}
float key_value(uint order) {
  return uintBitsToFloat((order & 0x80000000u) != 0u ? order ^ 0x80000000u : ~order);
}
