// A channel carries the bytes of a connection: through a socket as it is, or encrypted.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace autodist {

// The connection can't be used any more.
struct Lost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Channel {
 public:
  // Takes the socket over.
  explicit Channel(int socket) : socket_(socket) {}
  virtual ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int socket() const { return socket_; }
  int release() { return std::exchange(socket_, -1); }

  // Sends what the socket takes, and returns how many bytes that are. What is left must begin the next call.
  virtual size_t send(const iovec* pieces, size_t count);

  // Receives what is there, and returns how many bytes that are; throws Lost at the end.
  virtual size_t receive(const iovec* pieces, size_t count);

  // Whether bytes may be here that the system does not tell of.
  virtual bool has_unread() const { return false; }

 private:
  int socket_;
};

using Channels = std::vector<std::unique_ptr<Channel>>;

// The sockets as they are, by rank, with none for the number -1.
Channels plain(const std::vector<int>& sockets);

[[noreturn]] void lose(const char* what, int error);

}  // namespace autodist
