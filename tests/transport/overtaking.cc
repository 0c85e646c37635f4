// Prints how many bytes leave before an urgent message that comes while others wait for the socket.

#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "peer.h"

using autodist::Header;
using autodist::Kind;
using autodist::Channel;
using autodist::Peer;

constexpr size_t kPiece = 128 << 10;
constexpr int kWaiting = 12, kSmallBuffer = 32 << 10;
constexpr uint64_t kUrgent = 7;

int main() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) return 1;
  setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &kSmallBuffer, sizeof kSmallBuffer);
  Peer sender(std::make_unique<Channel>(ends[0]), false), receiver(std::make_unique<Channel>(ends[1]), false);
  const std::vector<char> data(kPiece);
  const auto queue = [&](uint64_t key, size_t size, int priority) {
    sender.queue({key, 0, size, 0, static_cast<uint32_t>(size), 0, Kind::kTensor}, data.data(), priority, false);
  };
  const auto ignore = [](const Header&) {};
  for (int k = 0; k < kWaiting; ++k) queue(1, kPiece, 5);
  sender.flush(ignore);
  queue(kUrgent, 64, 0);

  std::vector<char> place(kPiece);
  size_t before = 0;
  bool has_come = false;
  while (!has_come) {
    receiver.receive([&](const Header&) { return place.data(); },
                     [&](const Header& header) {
                       has_come = has_come || header.key == kUrgent;
                       if (!has_come) before += header.length;
                     });
    sender.flush(ignore);
  }
  std::printf("%zu\n", before);
}
