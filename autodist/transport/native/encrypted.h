// TLS 1.3 between two processes that share a key, by OpenSSL.
#pragma once

#include <cstddef>
#include <vector>

#include "channel.h"

namespace autodist {

constexpr size_t kKeyBytes = 32;

// Agrees with the processes at the other ends of sockets, which are taken over, on how to encrypt what follows; both
// ends of each have to prove that they have its key. By rank, with -1 for the own socket; the keys stand one after the
// other. Throws Lost, and says which rank it is about, if they don't agree in time.
Channels encrypted(int rank, const std::vector<int>& sockets, const unsigned char* keys, double timeout_s);

}  // namespace autodist
