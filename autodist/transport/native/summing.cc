#include "summing.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace autodist {
namespace {

constexpr size_t kBlock = 1024;  // elements that stay in the first cache until all parts are added

struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint32_t to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float widen(Bfloat16 value) { return from_bits(static_cast<uint32_t>(value.bits) << 16); }

float widen(Half value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  const uint32_t rest = value.bits & 0x7FFF;
  if (rest >= 0x7C00) return from_bits(sign | 0x7F800000 | (rest & 0x3FF) << 13);  // infinite, or no number
  // The exponent's offset is 15 there and 127 here; the product is exact, of subnormal numbers too.
  return from_bits(sign | to_bits(from_bits(rest << 13) * from_bits(0x77800000)));
}

template <typename T>
T narrow(float value);

template <>
Bfloat16 narrow<Bfloat16>(float value) {
  const uint32_t bits = to_bits(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {static_cast<uint16_t>(bits >> 16 | 0x40)};  // stays no number
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};               // to the nearest, then even
}

template <>
Half narrow<Half>(float value) {
  const uint32_t bits = to_bits(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7FFFFFFF;
  if (rest > 0x7F800000) return {static_cast<uint16_t>(sign | 0x7E00)};
  if (rest >= 0x477FF000) return {static_cast<uint16_t>(sign | 0x7C00)};  // 65520 is rounded to infinity
  if (rest < 0x38800000) {  // subnormal: the addition rounds, for the sum's last bit is the result's
    return {static_cast<uint16_t>(sign | (to_bits(from_bits(rest) + 0.5f) - to_bits(0.5f)))};
  }
  const uint32_t moved = rest - 0x38000000;
  return {static_cast<uint16_t>(sign | (moved + 0xFFF + (moved >> 13 & 1)) >> 13)};
}

template <typename T>
struct Plain {
  using Wide = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

template <typename T>
struct Narrow {
  using Wide = float;
  static float load(T value) { return widen(value); }
  static T store(float value) { return narrow<T>(value); }
};

template <typename T, typename Kind>
void sum_as(char* result, const std::vector<const char*>& parts, size_t count) {
  typename Kind::Wide totals[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t size = std::min(kBlock, count - begin);
    const T* first = reinterpret_cast<const T*>(parts[0]) + begin;
    for (size_t i = 0; i < size; ++i) totals[i] = Kind::load(first[i]);
    for (size_t k = 1; k < parts.size(); ++k) {
      const T* part = reinterpret_cast<const T*>(parts[k]) + begin;
      for (size_t i = 0; i < size; ++i) totals[i] += Kind::load(part[i]);
    }
    T* sums = reinterpret_cast<T*>(result) + begin;
    for (size_t i = 0; i < size; ++i) sums[i] = Kind::store(totals[i]);
  }
}

}  // namespace

size_t size_of(DataType type) {
  switch (type) {
    case DataType::kFloat:
    case DataType::kInt32:
      return 4;
    case DataType::kDouble:
    case DataType::kInt64:
      return 8;
    case DataType::kHalf:
    case DataType::kBfloat16:
      return 2;
  }
  return 0;
}

void sum(DataType type, char* result, const std::vector<const char*>& parts, size_t count) {
  switch (type) {
    case DataType::kFloat:
      return sum_as<float, Plain<float>>(result, parts, count);
    case DataType::kDouble:
      return sum_as<double, Plain<double>>(result, parts, count);
    // Unsigned, so that a sum which leaves their range wraps around, as TensorFlow's do.
    case DataType::kInt32:
      return sum_as<uint32_t, Plain<uint32_t>>(result, parts, count);
    case DataType::kInt64:
      return sum_as<uint64_t, Plain<uint64_t>>(result, parts, count);
    case DataType::kHalf:
      return sum_as<Half, Narrow<Half>>(result, parts, count);
    case DataType::kBfloat16:
      return sum_as<Bfloat16, Narrow<Bfloat16>>(result, parts, count);
  }
}

}  // namespace autodist
