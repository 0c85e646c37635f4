#include "peer.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "floats.h"

namespace autodist {
namespace {

constexpr size_t kBuffer = 64 << 10;
constexpr size_t kAtOnce = 16;                 // messages for one call of the system
constexpr size_t kMostInTurn = 1 << 20;        // bytes from one peer before others have their turn
constexpr size_t kLeastCoded = 4 << 10;        // bytes; of less a link has little to gain (LEAST_CODED_BYTES in Python)
constexpr size_t kMostLeaving = 128 << 10;     // bytes that nothing more urgent overtakes any more
constexpr size_t kMostFree = size_t{512} << 20;  // bytes that a pool keeps

}  // namespace

const char* wrong_header(const Header& header) {
  if (header.mark != kMark || header.kind < Kind::kPart || header.kind > Kind::kRefusal || header.length > kPiece) {
    return "it sent what is no message";
  }
  // In this order, since a sum of two of these may be too large for a number.
  if (header.total > kMostBytes || header.offset > header.total || header.length > header.total - header.offset) {
    return "it sent more than its tensor";
  }
  const bool is_plain = header.kind == Kind::kShape || header.kind == Kind::kRefusal;
  const bool may_be_coded = !is_plain && header.length % sizeof(float) == 0;
  if (header.coded && (header.coded >= header.length || !may_be_coded)) return "it sent what is no message";
  return nullptr;
}

Pool::Buffer Pool::take(size_t size) {
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const bool fits = it->capacity >= size && it->capacity <= 4 * size;
    if (fits && (best == free_.end() || it->capacity < best->capacity)) best = it;
  }
  if (best == free_.end()) return {std::unique_ptr<char[]>(new char[size]), size};
  Buffer found = std::move(*best);
  free_.erase(best);
  free_bytes_ -= found.capacity;
  return found;
}

void Pool::give(Buffer buffer) {
  if (!buffer.data || free_bytes_ + buffer.capacity > kMostFree) return;
  free_bytes_ += buffer.capacity;
  free_.push_back(std::move(buffer));
}

Peer::Peer(std::unique_ptr<Channel> channel, bool is_coding)
    : channel_(std::move(channel)), is_coding_(is_coding), buffer_(kBuffer) {}

void Peer::queue(const Header& header, const char* data, int priority, bool is_floats) {
  waiting_[priority].push_back({header, data, is_floats, {}});
}

void Peer::drop() {
  waiting_.clear();
  leaving_.clear();
  sent_ = 0;
}

void Peer::fill_leaving() {
  size_t bytes = 0;
  for (const Message& message : leaving_) bytes += message.header.following();
  while (leaving_.size() < kAtOnce && bytes < kMostLeaving && !waiting_.empty()) {
    const auto first = waiting_.begin();
    leaving_.push_back(std::move(first->second.front()));
    first->second.pop_front();
    if (first->second.empty()) waiting_.erase(first);
    if (is_coding_) encode(leaving_.back());
    bytes += leaving_.back().header.following();
  }
}

void Peer::encode(Message& message) {
  if (!message.is_floats || message.header.length < kLeastCoded || message.header.length % sizeof(float) != 0) return;
  if (!free_.empty()) {
    message.codes = std::move(free_.back());
    free_.pop_back();
  }
  message.codes.resize(std::max(message.codes.size(), coded_bound(message.header.length)));
  const size_t size = autodist::encode(message.data, message.header.length, message.codes.data());
  if (size >= message.header.length) return;  // as it is, then
  message.header.coded = static_cast<uint32_t>(size);
  message.data = message.codes.data();
}

void Peer::flush(const std::function<void(const Header&)>& sent) {
  for (;;) {
    fill_leaving();
    if (leaving_.empty()) return;
    iovec pieces[2 * kAtOnce];
    size_t count = 0, skipped = sent_;
    for (const Message& message : leaving_) {
      const std::pair<const char*, size_t> both[] = {{reinterpret_cast<const char*>(&message.header), sizeof(Header)},
                                                     {message.data, message.header.following()}};
      for (auto [data, size] : both) {
        const size_t passed = std::min(skipped, size);
        skipped -= passed;
        if (size > passed) pieces[count++] = {const_cast<char*>(data + passed), size - passed};
      }
    }
    const size_t written = channel_->send(pieces, count);
    if (written == 0) return;
    sent_ += written;
    while (!leaving_.empty() && sent_ >= sizeof(Header) + leaving_.front().header.following()) {
      const Header header = leaving_.front().header;
      sent_ -= sizeof(Header) + header.following();
      if (!leaving_.front().codes.empty()) free_.push_back(std::move(leaving_.front().codes));
      leaving_.pop_front();
      sent(header);
    }
  }
}

void Peer::receive(const std::function<char*(const Header&)>& place,
                   const std::function<void(const Header&)>& arrived) {
  for (size_t taken = 0; taken < kMostInTurn;) {
    const size_t size = fill();
    if (size == 0) return;
    taken += size;
    consume(place, arrived);
  }
}

// Reads what follows a header right to where it belongs, and what comes after it into the buffer.
size_t Peer::fill() {
  const bool has_place = header_size_ == sizeof(Header);
  const iovec pieces[2] = {
      {has_place ? payload() + payload_size_ : nullptr, has_place ? header_.following() - payload_size_ : 0},
      {buffer_.data(), buffer_.size()}};
  const size_t size = channel_->receive(pieces, 2);
  const size_t direct = std::min(size, pieces[0].iov_len);
  payload_size_ += direct;
  begin_ = 0;
  end_ = size - direct;
  return size;
}

void Peer::consume(const std::function<char*(const Header&)>& place,
                   const std::function<void(const Header&)>& arrived) {
  for (;;) {
    if (header_size_ < sizeof(Header)) {
      const size_t size = std::min(sizeof(Header) - header_size_, end_ - begin_);
      std::memcpy(reinterpret_cast<char*>(&header_) + header_size_, buffer_.data() + begin_, size);
      header_size_ += size;
      begin_ += size;
      if (header_size_ < sizeof(Header)) return;
      if (const char* wrong = wrong_header(header_)) throw Lost(wrong);
      payload_ = place(header_);
      payload_size_ = 0;
      if (header_.coded > codes_.size()) codes_.resize(header_.coded);
    }
    const size_t size = std::min(header_.following() - payload_size_, end_ - begin_);
    if (size) std::memcpy(payload() + payload_size_, buffer_.data() + begin_, size);
    payload_size_ += size;
    begin_ += size;
    if (payload_size_ < header_.following()) return;
    if (header_.coded && !decode(codes_.data(), header_.coded, payload_, header_.length)) {
      throw Lost("it sent what can't be decoded");
    }
    header_size_ = 0;
    arrived(header_);
  }
}

}  // namespace autodist
