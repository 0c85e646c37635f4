#include "channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace autodist {

void lose(const char* what, int error) { throw Lost(std::string(what) + ": " + std::strerror(error)); }

Channel::~Channel() {
  if (socket_ >= 0) close(socket_);
}

size_t Channel::send(const iovec* pieces, size_t count) {
  msghdr whole{};
  whole.msg_iov = const_cast<iovec*>(pieces);
  whole.msg_iovlen = count;
  ssize_t written;
  do {
    written = sendmsg(socket_, &whole, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (written < 0 && errno == EINTR);
  if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  if (written < 0) lose("it could not be sent to", errno);
  return static_cast<size_t>(written);
}

size_t Channel::receive(const iovec* pieces, size_t count) {
  ssize_t size;
  do {
    size = readv(socket_, pieces, static_cast<int>(count));
  } while (size < 0 && errno == EINTR);
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  if (size < 0) lose("it could not be heard", errno);
  if (size == 0) throw Lost("it has closed its connection");
  return static_cast<size_t>(size);
}

Channels plain(const std::vector<int>& sockets) {
  Channels found;
  for (const int socket : sockets) found.push_back(socket < 0 ? nullptr : std::make_unique<Channel>(socket));
  return found;
}

}  // namespace autodist
