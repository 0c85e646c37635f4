// Sums of tensors of several dtypes, element by element.
#pragma once

#include <cstddef>
#include <vector>

namespace autodist {

// Those that can be summed, as TensorFlow numbers them.
enum class DataType : int { kFloat = 1, kDouble = 2, kInt32 = 3, kInt64 = 9, kBfloat16 = 14, kHalf = 19 };

// Bytes of an element; 0 for what can't be summed.
size_t size_of(DataType type);

// The sum of `parts`, in their order, of `count` elements each; it may be written over one of them. Halves are added as
// floats and rounded once.
void sum(DataType type, char* result, const std::vector<const char*>& parts, size_t count);

}  // namespace autodist
