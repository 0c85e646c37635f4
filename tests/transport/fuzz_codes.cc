// A target for libFuzzer: codes of floats that are none, and floats that come back bit by bit.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "floats.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 2) return 0;
  const size_t floats_size = 4 * (size_t{bytes[0]} | size_t{bytes[1]} << 8) % (16 << 10);
  const auto* data = reinterpret_cast<const char*>(bytes + 2);
  size -= 2;
  // In memory of their own, so that a byte beside it is seen.
  const std::unique_ptr<char[]> codes(new char[size]), decoded(new char[floats_size]);
  std::memcpy(codes.get(), data, size);
  autodist::decode(codes.get(), size, decoded.get(), floats_size);

  const size_t whole = size / 4 * 4;
  const size_t bound = autodist::coded_bound(whole);
  const std::unique_ptr<char[]> coded(new char[bound]), back(new char[whole]);
  const size_t coded_size = autodist::encode(codes.get(), whole, coded.get());
  if (coded_size > bound || !autodist::decode(coded.get(), coded_size, back.get(), whole) ||
      std::memcmp(back.get(), data, whole) != 0) {
    abort();
  }
  return 0;
}
