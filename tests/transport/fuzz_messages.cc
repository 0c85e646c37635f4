// A target for libFuzzer: what other processes send, as headers with a few wrong fields, or as any bytes.
//
// Three processes of which this one is real, with a collective of each kind under way or yet to begin. Whatever comes,
// each call ends exactly once, and nothing is written beside its memory (AddressSanitizer).

#include <fuzzer/FuzzedDataProvider.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "peer.h"
#include "transport.h"

using autodist::Call;
using autodist::Header;
using autodist::Kind;
using autodist::Transport;

namespace {

constexpr int kCount = 3, kCalls = 6;
constexpr size_t kSmall = 4000, kLarge = 300 << 10;  // bytes: a tensor with one owner, one with many
constexpr int kMostWaits = 100, kWaitUs = 20;

struct Memory {
  std::unique_ptr<char[]> input, output;
  std::atomic<int> ends{0};
};

std::unique_ptr<char[]> zeros(size_t size) { return std::unique_ptr<char[]>(new char[size]()); }

Call call(int number, Memory& memory) {
  Call call;
  call.key = static_cast<uint64_t>(number);
  call.size = number == 1 ? kLarge : kSmall;
  memory.input = zeros(call.size);
  call.input = memory.input.get();
  call.done = [&memory](const std::string&) { ++memory.ends; };
  switch (number) {
    case 0:
    case 1:
      call.kind = Call::Kind::kReduce;
      memory.output = zeros(call.size);
      call.output = memory.output.get();
      return call;
    case 2:
      call.kind = Call::Kind::kGather;
      call.gather = [&memory](const std::vector<size_t>& sizes) -> char* {
        size_t total = 0;
        for (const size_t size : sizes) total += size;
        if (total > 4 * kLarge) return nullptr;
        memory.output = zeros(total);
        return memory.output.get();
      };
      return call;
    case 3:
      call.kind = Call::Kind::kSend;
      call.shape = {static_cast<int64_t>(kSmall / 4)};
      call.targets = {1, 2};
      return call;
    default:
      call.kind = Call::Kind::kReceive;
      call.targets = {number - 3};
      call.receive = [&memory](const std::vector<int64_t>&, size_t size) -> char* {
        if (size > kLarge) return nullptr;
        memory.output = zeros(size);
        return memory.output.get();
      };
      return call;
  }
}

// One that could be right but for what the data changes.
Header header(FuzzedDataProvider& data) {
  Header header{};
  header.key = data.ConsumeIntegralInRange<uint64_t>(0, kCalls);
  header.kind = static_cast<Kind>(data.ConsumeIntegralInRange<uint16_t>(0, 7));
  header.total = data.PickValueInArray<uint64_t>({kSmall, kLarge, 8, 0, 7, 1ull << 44, 1ull << 60});
  header.offset = data.PickValueInArray<uint64_t>({0, autodist::kPiece, 8, 1ull << 44, ~0ull, ~0ull - 4000});
  header.length = data.PickValueInArray<uint32_t>({kSmall, autodist::kPiece, 8, 0, 7, kSmall / 3, ~0u});
  header.round = data.PickValueInArray<uint32_t>({0, 0, 0, 1, ~0u, 1u << 20});
  if (data.ConsumeBool()) header.coded = data.PickValueInArray<uint32_t>({kSmall - 1, 1, 4096, ~0u});
  if (data.ConsumeIntegralInRange(0, 20) == 0) {
    const auto bytes = data.ConsumeBytes<char>(sizeof header);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(&header));
  }
  return header;
}

// Sends what the other end takes; gives up soon where nobody reads any more.
void put(int socket, const char* bytes, size_t size) {
  for (int wait = 0; size && wait < kMostWaits; ++wait) {
    const ssize_t taken = send(socket, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (taken > 0) {
      bytes += taken;
      size -= static_cast<size_t>(taken);
    } else {
      usleep(kWaitUs);
    }
  }
}

void put_message(FuzzedDataProvider& data, int socket) {
  const Header sent = header(data);
  put(socket, reinterpret_cast<const char*>(&sent), sizeof sent);
  const size_t size = std::min<size_t>(sent.following(), autodist::kPiece);
  std::vector<char> payload = data.ConsumeBytes<char>(std::min<size_t>(size, 64));
  payload.resize(size);
  put(socket, payload.data(), payload.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  int pairs[kCount][2] = {{-1, -1}};
  std::vector<int> sockets = {-1};
  for (int rank = 1; rank < kCount; ++rank) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[rank]) != 0) abort();
    sockets.push_back(pairs[rank][0]);
  }
  Memory memories[kCalls];
  bool has_begun[kCalls] = {};
  {
    Transport transport(0, autodist::plain(sockets), {0.5, 0.25, 0.25}, {false, false, true});
    const auto begin = [&](int number) {
      if (!has_begun[number]) transport.start(call(number, memories[number]));
      has_begun[number] = true;
    };
    while (data.remaining_bytes() > 0) {
      const int choice = data.ConsumeIntegralInRange(0, 3);
      const int to = pairs[data.ConsumeIntegralInRange(1, kCount - 1)][1];
      if (choice == 0) begin(data.ConsumeIntegralInRange(0, kCalls - 1));
      if (choice == 1) usleep(kWaitUs);  // the order in which these are seen is then that of the data
      if (choice > 1) put_message(data, to);
    }
    for (int number = 0; number < kCalls; ++number) begin(number);
    for (int rank = 1, waiting = 0; rank < kCount; ++rank) {
      for (int left = 1; left > 0 && waiting < kMostWaits; ++waiting) {
        if (ioctl(pairs[rank][0], FIONREAD, &left) != 0) left = 0;
        if (left) usleep(kWaitUs);
      }
    }
  }
  for (const Memory& memory : memories) {
    if (memory.ends != 1) abort();
  }
  for (int rank = 1; rank < kCount; ++rank) close(pairs[rank][1]);
  return 0;
}
