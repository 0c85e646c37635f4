#include "floats.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace autodist {
namespace {

constexpr size_t kBlock = 1024;  // floats
constexpr uint8_t kZero = 14;    // the code of exponent 0: zeros, and what is nearly that
constexpr uint8_t kFar = 15;     // the code of what follows by itself

// A coded block: this, two codes in each byte, the lower halves of all bits, signs with the upper ends of fractions,
// and the exponents that are far below.
struct Start {
  uint16_t far;   // how many these are
  uint8_t most;   // the largest exponent
  uint8_t unused;
};

size_t fixed_size(size_t count) { return sizeof(Start) + (count + 1) / 2 + 3 * count; }

uint32_t most_of(const uint32_t* bits, size_t count) {
  int32_t most = 0;
  for (size_t i = 0; i < count; ++i) most = std::max(most, static_cast<int32_t>(bits[i] & 0x7F800000));
  return static_cast<uint32_t>(most) >> 23;
}

// How many exponents are far below.
uint32_t code(const uint32_t* bits, size_t count, uint32_t most, uint8_t* codes) {
  uint32_t far = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t exponent = bits[i] >> 23 & 0xFF, below = most - exponent;
    const uint32_t found = exponent == 0 ? kZero : below < kZero ? below : kFar;
    far += found == kFar;
    codes[i] = static_cast<uint8_t>(found);
  }
  return far;
}

void split(const uint32_t* bits, size_t count, uint16_t* lower, uint8_t* upper) {
  for (size_t i = 0; i < count; ++i) lower[i] = static_cast<uint16_t>(bits[i]);
  for (size_t i = 0; i < count; ++i) upper[i] = static_cast<uint8_t>((bits[i] >> 16 & 0x7F) | (bits[i] >> 24 & 0x80));
}

void in_pairs(const uint8_t* codes, size_t pairs, uint8_t* joined) {
  for (size_t i = 0; i < pairs; ++i) joined[i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
}

void out_of_pairs(const uint8_t* joined, size_t pairs, uint8_t* codes) {
  for (size_t i = 0; i < pairs; ++i) {
    codes[2 * i] = joined[i] & 0xF;
    codes[2 * i + 1] = joined[i] >> 4;
  }
}

void join(const uint8_t* codes, uint32_t most, const uint16_t* lower, const uint8_t* upper, size_t count,
          uint32_t* bits) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t exponent = codes[i] == kZero ? 0 : (most - codes[i]) & 0xFF;
    bits[i] = lower[i] | (upper[i] & 0x7Fu) << 16 | (upper[i] & 0x80u) << 24 | exponent << 23;
  }
}

size_t encode_block(const char* floats, size_t count, char* coded) {
  alignas(64) uint32_t bits[kBlock];
  alignas(64) uint8_t codes[kBlock + 1], joined[kBlock / 2], upper[kBlock];
  alignas(64) uint16_t lower[kBlock];
  std::memcpy(bits, floats, 4 * count);
  const uint32_t most = most_of(bits, count), far = code(bits, count, most, codes);
  codes[count] = 0;
  in_pairs(codes, (count + 1) / 2, joined);
  split(bits, count, lower, upper);
  const Start start{static_cast<uint16_t>(far), static_cast<uint8_t>(most), 0};
  char* end = coded;
  const auto put = [&end](const void* data, size_t size) {
    std::memcpy(end, data, size);
    end += size;
  };
  put(&start, sizeof start);
  put(joined, (count + 1) / 2);
  put(lower, 2 * count);
  put(upper, count);
  for (size_t i = 0; far && i < count; ++i) {
    if (codes[i] == kFar) *end++ = static_cast<char>(bits[i] >> 23 & 0xFF);
  }
  return static_cast<size_t>(end - coded);
}

// How many bytes its codes are; 0 if these can't be all.
size_t decode_block(const char* coded, size_t coded_size, char* floats, size_t count) {
  Start start;
  if (coded_size < fixed_size(count)) return 0;
  std::memcpy(&start, coded, sizeof start);
  const size_t size = fixed_size(count) + start.far;
  if (coded_size < size) return 0;
  alignas(64) uint32_t bits[kBlock];
  alignas(64) uint8_t codes[kBlock + 1], joined[kBlock / 2], upper[kBlock];
  alignas(64) uint16_t lower[kBlock];
  const char* at = coded + sizeof start;
  const auto get = [&at](void* data, size_t length) {
    std::memcpy(data, at, length);
    at += length;
  };
  get(joined, (count + 1) / 2);
  get(lower, 2 * count);
  get(upper, count);
  out_of_pairs(joined, (count + 1) / 2, codes);
  join(codes, start.most, lower, upper, count, bits);
  size_t far = 0;
  for (size_t i = 0; start.far && i < count; ++i) {
    if (codes[i] != kFar) continue;
    if (far == start.far) return 0;
    bits[i] = (bits[i] & 0x807FFFFF) | static_cast<uint32_t>(static_cast<uint8_t>(at[far++])) << 23;
  }
  if (far != start.far) return 0;
  std::memcpy(floats, bits, 4 * count);
  return size;
}

}  // namespace

size_t coded_bound(size_t size) {
  const size_t count = size / 4, blocks = (count + kBlock - 1) / kBlock;
  return blocks * (sizeof(Start) + 1) + count / 2 + 4 * count;
}

size_t encode(const char* floats, size_t size, char* coded) {
  size_t coded_size = 0;
  for (size_t begin = 0; begin < size; begin += 4 * kBlock) {
    coded_size += encode_block(floats + begin, std::min(kBlock, (size - begin) / 4), coded + coded_size);
  }
  return coded_size;
}

bool decode(const char* coded, size_t coded_size, char* floats, size_t size) {
  if (size % 4 != 0) return false;
  size_t passed = 0;
  for (size_t begin = 0; begin < size; begin += 4 * kBlock) {
    const size_t count = std::min(kBlock, (size - begin) / 4);
    const size_t taken = decode_block(coded + passed, coded_size - passed, floats + begin, count);
    if (taken == 0) return false;
    passed += taken;
  }
  return passed == coded_size;
}

}  // namespace autodist
