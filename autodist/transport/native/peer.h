// The connection to one other process: messages out of a queue, messages into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "channel.h"

namespace autodist {

enum class Kind : uint16_t {
  kPart = 1,    // of the receiver's share, to be summed
  kSum = 2,     // of the sender's share
  kGather = 3,  // of the sender's tensor, for everybody
  kShape = 4,   // the dimensions of a tensor for the receiver
  kTensor = 5,  // of that tensor
  kRefusal = 6, // why there is no tensor for the receiver
};

constexpr uint16_t kMark = 0xA0D1;  // shows that both ends agree on where a message begins
constexpr size_t kPiece = 128 << 10;  // bytes of a message at most: small enough that sums begin early
constexpr size_t kMostBytes = size_t{1} << 44;  // of a tensor

// What precedes the bytes of a message; processors of both ends have the same order of bytes.
struct Header {
  uint64_t key;
  uint64_t offset;  // bytes of the sender's, or of the receiver's share, that come before
  uint64_t total;   // bytes of the whole tensor
  uint32_t round;
  uint32_t length;  // bytes of this message
  uint32_t coded;   // bytes that follow in their place if these are codes, else 0
  Kind kind;
  uint16_t mark = kMark;

  size_t following() const { return coded ? coded : length; }
};

// Why a header is invalid, whatever it belongs to; null if it is valid.
const char* wrong_header(const Header& header);

// Memory that is used again, since new memory costs as much as what is done with it.
class Pool {
 public:
  struct Buffer {
    std::unique_ptr<char[]> data;
    size_t capacity = 0;
  };
  Buffer take(size_t size);
  void give(Buffer buffer);

 private:
  std::vector<Buffer> free_;
  size_t free_bytes_ = 0;
};

class Peer {
 public:
  // Floats that go there may be encoded.
  Peer(std::unique_ptr<Channel> channel, bool is_coding);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  int socket() const { return channel_->socket(); }
  bool has_queued() const { return !waiting_.empty() || !leaving_.empty(); }

  // Puts a message behind those that wait and have the same priority or a lower number. `data` must stay.
  void queue(const Header& header, const char* data, int priority, bool is_floats);

  // Sends what the socket takes, and calls `sent` for each message that has left.
  void flush(const std::function<void(const Header&)>& sent);

  // Whether there may be more to receive than the system knows of.
  bool has_unread() const { return channel_->has_unread(); }

  // Receives what is there. Asks where the bytes of each message go, then says that they have come.
  void receive(const std::function<char*(const Header&)>& place, const std::function<void(const Header&)>& arrived);

  // Forgets what it was to send.
  void drop();

  bool is_writing = false;  // whether the system tells when the socket takes more
  bool is_gone = false;     // whether nothing more is to be had from it

 private:
  struct Message {
    Header header;
    const char* data;
    bool is_floats;
    std::vector<char> codes;  // instead of data, if there are any
  };
  void fill_leaving();
  void encode(Message& message);
  char* payload() { return header_.coded ? codes_.data() : payload_; }
  size_t fill();
  void consume(const std::function<char*(const Header&)>& place, const std::function<void(const Header&)>& arrived);

  const std::unique_ptr<Channel> channel_;
  const bool is_coding_;
  std::map<int, std::deque<Message>> waiting_;  // by priority
  std::deque<Message> leaving_;  // what the next call of the system gets, the first perhaps in part
  size_t sent_ = 0;              // bytes of the first of these that have left
  std::vector<std::vector<char>> free_;  // memory of codes

  Header header_{};
  size_t header_size_ = 0;   // bytes of it that have come
  size_t payload_size_ = 0;  // the same of what follows it
  char* payload_ = nullptr;
  std::vector<char> codes_;  // what follows the header, if these are any
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // of what is in the buffer
};

}  // namespace autodist
