#include "conformance/numbers.h"

namespace onepass::conformance {
namespace {

// Bits of the nearest number with an exponent of exponent_bits and a mantissa of mantissa_bits.
std::uint16_t narrow(double x, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const unsigned sign = std::signbit(x) ? 0x8000u : 0u;
  const unsigned largest = ((1u << exponent_bits) - 1u) << mantissa_bits;
  if (std::isnan(x)) return static_cast<std::uint16_t>(sign | largest | 1u << (mantissa_bits - 1));
  const double a = std::abs(x);
  if (a == 0.0) return static_cast<std::uint16_t>(sign);
  if (std::isinf(a)) return static_cast<std::uint16_t>(sign | largest);
  const int exponent = std::max(std::ilogb(a), 1 - bias);
  // In units of the last place; a mantissa that overflows carries into the exponent by itself.
  const auto units =
      static_cast<std::uint64_t>(std::nearbyint(std::ldexp(a, mantissa_bits - exponent)));
  const std::uint64_t bits =
      units + (static_cast<std::uint64_t>(exponent + bias - 1) << mantissa_bits);
  return static_cast<std::uint16_t>(sign | (bits < largest ? bits : largest));
}

double widen(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? not_a_number : sign * infinity;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

template <class T>
void append(Bytes& bytes, T value) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

template <class T>
T read(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return Random(h).next();
}

Random::Random(std::string_view text) : state_(hash(text)) {}

std::uint64_t Random::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

double Random::uniform(double lo, double hi) {
  return lo + (hi - lo) * std::ldexp(static_cast<double>(next() >> 11), -53);
}

std::uint16_t to_f16(double x) { return narrow(x, 5, 10); }
std::uint16_t to_bf16(double x) { return narrow(x, 8, 7); }
double from_f16(std::uint16_t bits) { return widen(bits, 5, 10); }
double from_bf16(std::uint16_t bits) { return widen(bits, 8, 7); }

Stored store(DType type, const Doubles& values) {
  Stored s;
  for (const double v : values) {
    switch (type) {
      case DType::f16:
        append(s.bytes, to_f16(v));
        break;
      case DType::bf16:
        append(s.bytes, to_bf16(v));
        break;
      case DType::u32:
        append(s.bytes, static_cast<std::uint32_t>(v));
        break;
      case DType::i32:
        append(s.bytes, static_cast<std::int32_t>(v));
        break;
      default:
        append(s.bytes, static_cast<float>(v));
    }
  }
  s.values = load(type, s.bytes);
  return s;
}

Doubles load(DType type, std::span<const std::byte> bytes) {
  Doubles values(bytes.size() / info(type).block_bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (type) {
      case DType::f16:
        values[i] = from_f16(read<std::uint16_t>(bytes, i));
        break;
      case DType::bf16:
        values[i] = from_bf16(read<std::uint16_t>(bytes, i));
        break;
      case DType::u32:
        values[i] = static_cast<double>(read<std::uint32_t>(bytes, i));
        break;
      case DType::i32:
        values[i] = static_cast<double>(read<std::int32_t>(bytes, i));
        break;
      default:
        values[i] = static_cast<double>(read<float>(bytes, i));
    }
  }
  return values;
}

double store_error(DType type, double magnitude) {
  switch (type) {
    case DType::f16:
      return std::max(magnitude * 0x1p-11, 0x1p-25);
    case DType::bf16:
      return std::max(magnitude * 0x1p-8, 0x1p-134);
    default:
      return 0.0;
  }
}

Stored random_values(Random& random, DType type, std::size_t n, double scale) {
  Doubles values(n);
  bool zero = false;
  for (std::size_t i = 0; i < n; ++i) {
    if (i % 32 == 0) zero = random.below(24) == 0;
    const double v = random.uniform(-scale, scale);
    values[i] = zero ? 0.0 : random.below(64) == 0 ? 8.0 * v : v;
  }
  return store(type, values);
}

Bytes words(const std::vector<std::uint32_t>& values) {
  Bytes bytes;
  for (const std::uint32_t v : values) append(bytes, v);
  return bytes;
}

}  // namespace onepass::conformance
