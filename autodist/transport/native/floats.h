// Floats in seven eighths of their bytes, without loss: what slow links carry.
//
// Eight of the 32 bits of a float are its exponent, and those of a gradient or a parameter differ little: nearly all of
// 1024 neighbours are within a factor of 2^14. So each is told in four bits, as how far it is below the block's largest;
// the few that are further below follow by themselves. Signs and fractions are as good as random, and stay as they are.
#pragma once

#include <cstddef>

namespace autodist {

// Sizes are bytes, those of floats multiples of 4.

// How many bytes `encode` may need for as many of floats.
size_t coded_bound(size_t size);

// Encodes floats, and returns how many bytes that took. Nothing of their bits is lost, whatever they are.
size_t encode(const char* floats, size_t size, char* coded);

// The floats that were encoded; false if these are not the codes of as many.
bool decode(const char* coded, size_t coded_size, char* floats, size_t size);

}  // namespace autodist
