#include "operation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace autodist {
namespace {

constexpr size_t kUndivided = 32 << 10;   // bytes up to which a tensor has one owner: messages cost more than bytes
constexpr size_t kLeastPart = 16 << 10;   // bytes of what one of many owners sums
constexpr size_t kUnit = 64;              // bytes; shares begin at multiples

// Priorities: sums end something, and what is small keeps nobody waiting.
constexpr int kFirst = std::numeric_limits<int>::min();
constexpr int kSoon = kFirst + 1;

constexpr size_t kBelieved = size_t{1} << 30;  // bytes for which there is memory as soon as they are announced
constexpr size_t kMostDims = 254;  // of a tensor of TensorFlow
constexpr size_t kMostWords = 4 << 10;  // bytes

std::string sizes(size_t announced, size_t expected) {
  return std::to_string(announced) + " bytes, but " + std::to_string(expected) + " here";
}

// The pieces of a tensor come one after another, each as large as it can be: so none comes twice, and none overlaps.
void check_next(const Header& header, size_t come, size_t size) {
  if (header.offset != come || header.length != std::min(kPiece, size - come)) {
    throw Lost("it sent a piece twice, or not whole");
  }
}

}  // namespace

Operation::Operation(Transport& transport, Id id, Call::Kind kind)
    : transport_(transport), id_(id), kind_(kind), unsent_(transport.peers_.size()),
      staging_(transport.peers_.size()) {}

Operation::~Operation() {
  for (auto& buffer : staging_) transport_.pool_.give(std::move(buffer));
}

void Operation::begin(Call call) {
  call_ = std::move(call);
  has_begun_ = true;
  leave();
  advance();
}

bool Operation::is_complete() const {
  return has_begun_ && is_done() && std::all_of(unsent_.begin(), unsent_.end(), [](size_t left) { return left == 0; });
}

void Operation::finish(const std::string& error) {
  if (has_begun_) call_.done(error);
}

void Operation::send(int rank, Kind kind, const char* data, size_t size, size_t total, int priority, size_t offset) {
  Peer& peer = *transport_.peers_[rank];
  if (peer.is_gone) throw Unreachable(transport_.broken_);
  const bool is_floats = kind != Kind::kShape && kind != Kind::kRefusal && call_.type == DataType::kFloat;
  size_t sent = 0;
  do {
    const size_t length = std::min(kPiece, size - sent);
    peer.queue({id_.key, offset + sent, total, id_.round, static_cast<uint32_t>(length), 0, kind}, data + sent, priority,
               is_floats);
    ++unsent_[rank];
    sent += length;
  } while (sent < size);
}

// Memory for all that is announced; for a very large tensor it grows only as bytes come.
char* Operation::staging(int rank, size_t come, size_t total) {
  Pool::Buffer& buffer = staging_[rank];
  const size_t wanted = std::min(total, std::max(kBelieved, 2 * (come + kPiece)));
  if (buffer.capacity < std::min(total, come + kPiece)) {
    Pool::Buffer larger = transport_.pool_.take(wanted);
    if (come) std::memcpy(larger.data.get(), buffer.data.get(), come);
    transport_.pool_.give(std::move(buffer));
    buffer = std::move(larger);
  }
  return buffer.data.get() + come;
}

Reduction::Reduction(Transport& transport, Id id)
    : Operation(transport, id, Call::Kind::kReduce), parts_(count()), sums_(count()) {}

// Which process sums which part, the same on all processes. A tensor that is too small for a fair part for everybody is
// summed by some, which differ from tensor to tensor: those in whose share of the places one of as many points falls,
// at equal distances. The first bits of the key say where the first point is (`owner_places` in Python).
void Reduction::divide(size_t total) {
  if (!shares_.empty()) return;
  total_ = total;
  shares_.assign(count(), {0, 0});
  const size_t owners = total <= kUndivided ? 1 : total / kLeastPart;
  const bool is_for_all = owners >= static_cast<size_t>(count());
  const double at = static_cast<double>(id_.key >> 11) / static_cast<double>(uint64_t{1} << 53);
  // How many points are before a place.
  const auto points = [&](double place) {
    return std::clamp(std::ceil(place * owners - at), 0.0, static_cast<double>(owners));
  };
  double after = 0;
  size_t begin = 0;
  for (int rank = 0; rank < count(); ++rank) {
    after += fractions()[rank];
    const double part = is_for_all ? after : points(after) / owners;
    const bool is_rest = rank + 1 == count() || part >= 1;
    const size_t end = is_rest ? total : std::min(total, static_cast<size_t>(part * total) / kUnit * kUnit);
    shares_[rank] = {begin, end - begin};
    begin = end;
  }
}

void Reduction::leave() {
  divide(call_.size);
  if (total_ != call_.size) throw Lost("a tensor has " + sizes(total_, call_.size));
  for (int step = 1; step < count(); ++step) {
    const int rank = (own() + step) % count();  // not all at once to the same
    const Range share = shares_[rank];
    const int priority = call_.size <= kUndivided ? kSoon : call_.priority;
    if (share.size) send(rank, Kind::kPart, call_.input + share.begin, share.size, call_.size, priority);
  }
}

char* Reduction::place(int rank, const Header& header) {
  divide(header.total);
  const bool is_part = header.kind == Kind::kPart;
  const Range share = shares_[is_part ? own() : rank];
  const size_t come = (is_part ? parts_ : sums_)[rank];
  if (header.total != total_) throw Lost("its tensor has " + sizes(header.total, total_));
  if (come == share.size || (!is_part && !has_begun_)) throw Lost("it sent more than its tensor");
  check_next(header, come, share.size);
  return is_part ? staging(rank, come, share.size) : call_.output + share.begin + come;
}

void Reduction::arrived(int rank, const Header& header) {
  (header.kind == Kind::kPart ? parts_ : sums_)[rank] += header.length;
  if (header.kind == Kind::kPart) advance();
}

void Reduction::advance() {
  if (!has_begun_) return;
  const Range share = shares_[own()];
  size_t ready = share.size;
  for (int rank = 0; rank < count(); ++rank) {
    if (rank != own()) ready = std::min(ready, parts_[rank]);
  }
  while (summed_ < ready) {
    const size_t size = std::min(kPiece, ready - summed_);
    std::vector<const char*> parts(count());
    for (int rank = 0; rank < count(); ++rank) {
      parts[rank] = summed_ + (rank == own() ? call_.input + share.begin : staging_[rank].data.get());
    }
    char* result = call_.output + share.begin + summed_;
    sum(call_.type, result, parts, size / size_of(call_.type));
    for (int step = 1; step < count(); ++step) {
      send((own() + step) % count(), Kind::kSum, result, size, call_.size, kFirst, summed_);
    }
    summed_ += size;
  }
}

bool Reduction::awaits(int rank) const {
  return has_begun_ && (parts_[rank] < shares_[own()].size || sums_[rank] < shares_[rank].size);
}

bool Reduction::is_done() const {
  for (int rank = 0; rank < count(); ++rank) {
    if (rank != own() && awaits(rank)) return false;
  }
  return summed_ == shares_[own()].size;
}

Gathering::Gathering(Transport& transport, Id id)
    : Operation(transport, id, Call::Kind::kGather), sizes_(count()), is_known_(count()), come_(count()), is_staged_(count()) {}

void Gathering::leave() {
  sizes_[own()] = call_.size;
  is_known_[own()] = true;
  for (int step = 1; step < count(); ++step) {
    send((own() + step) % count(), Kind::kGather, call_.input, call_.size, call_.size, call_.priority);
  }
}

char* Gathering::slot(int rank) const {
  char* place = output_;
  for (int before = 0; before < rank; ++before) place += sizes_[before];
  return place;
}

char* Gathering::place(int rank, const Header& header) {
  if (is_known_[rank] && sizes_[rank] != header.total) throw Lost("its tensor has " + sizes(header.total, sizes_[rank]));
  if (is_known_[rank] && come_[rank] == sizes_[rank]) throw Lost("it sent more than its tensor");
  check_next(header, come_[rank], header.total);
  sizes_[rank] = header.total;
  is_known_[rank] = true;
  advance();
  is_staged_[rank] = output_ == nullptr;
  return output_ ? slot(rank) + header.offset : staging(rank, come_[rank], header.total);
}

void Gathering::arrived(int rank, const Header& header) {
  // The output came while the bytes were on their way.
  if (is_staged_[rank] && output_) {
    std::memcpy(slot(rank) + header.offset, staging_[rank].data.get() + header.offset, header.length);
  }
  come_[rank] += header.length;
}

void Gathering::advance() {
  if (!has_begun_ || output_ || std::find(is_known_.begin(), is_known_.end(), false) != is_known_.end()) return;
  output_ = call_.gather(sizes_);
  if (!output_) throw Lost("what is gathered has rows of unlike sizes, or there is no memory for it");
  if (call_.size) std::memcpy(slot(own()), call_.input, call_.size);
  for (int rank = 0; rank < count(); ++rank) {
    if (rank != own() && come_[rank]) std::memcpy(slot(rank), staging_[rank].data.get(), come_[rank]);
  }
}

bool Gathering::awaits(int rank) const { return has_begun_ && (!is_known_[rank] || come_[rank] < sizes_[rank]); }

bool Gathering::is_done() const {
  for (int rank = 0; rank < count(); ++rank) {
    if (rank != own() && awaits(rank)) return false;
  }
  return output_ != nullptr;
}

Sending::Sending(Transport& transport, Id id) : Operation(transport, id, Call::Kind::kSend) {}

void Sending::leave() {
  const int priority = call_.size <= kUndivided ? kSoon : call_.priority;
  const size_t size = call_.shape.size() * sizeof(int64_t);
  for (const int rank : call_.targets) {
    if (call_.is_refusal) {
      send(rank, Kind::kRefusal, call_.input, call_.size, call_.size, kSoon);
      continue;
    }
    send(rank, Kind::kShape, reinterpret_cast<const char*>(call_.shape.data()), size, size, priority);
    send(rank, Kind::kTensor, call_.input, call_.size, call_.size, priority);
  }
}

char* Sending::place(int, const Header&) { throw Lost("it sent what nobody waits for"); }

Receipt::Receipt(Transport& transport, Id id) : Operation(transport, id, Call::Kind::kReceive) {}

char* Receipt::place(int rank, const Header& header) {
  check_source(rank);
  if (is_refused_) throw Lost("it sent more than its tensor");
  if (header.kind == Kind::kRefusal) {
    const bool is_whole = header.total > 0 && header.total <= kMostWords && header.length == header.total;
    if (has_shape_ || !is_whole) throw Lost("it sent what is no refusal");
    refusal_.resize(header.total);
    return &refusal_[0];
  }
  if (header.kind == Kind::kShape) {
    const size_t dims = header.total / sizeof(int64_t);
    if (has_shape_ || header.length != header.total || header.total % sizeof(int64_t) != 0 || dims > kMostDims) {
      throw Lost("it sent what is no shape");
    }
    shape_.resize(dims);
    return reinterpret_cast<char*>(shape_.data());
  }
  if (!has_shape_) throw Lost("it sent a tensor before its shape");
  if (is_sized_ && header.total != total_) throw Lost("its tensor has " + sizes(header.total, total_));
  if (is_come_ && come_ == total_) throw Lost("it sent more than its tensor");
  check_next(header, come_, header.total);
  total_ = header.total;
  is_sized_ = true;
  advance();
  is_staged_ = output_ == nullptr;
  return output_ ? output_ + header.offset : staging(rank, come_, total_);
}

void Receipt::arrived(int rank, const Header& header) {
  if (header.kind == Kind::kShape) {
    has_shape_ = true;
    return;
  }
  if (header.kind == Kind::kRefusal) {
    is_refused_ = true;
    return;
  }
  const char* staged = staging_[rank].data.get();
  if (is_staged_ && output_) std::memcpy(output_ + header.offset, staged + header.offset, header.length);
  come_ += header.length;
  is_come_ = true;
}

// One process sends it, and no other.
void Receipt::check_source(int rank) {
  if (source_ < 0) source_ = has_begun_ ? call_.targets.front() : rank;
  if (source_ != rank) throw Lost("it sent what another was to send");
}

void Receipt::advance() {
  if (!has_begun_) return;
  check_source(call_.targets.front());
  if (output_ || !is_sized_) return;
  output_ = call_.receive(shape_, total_);
  if (!output_) throw Lost("its tensor does not fit, or there is no memory for it");
  for (auto& staged : staging_) {
    if (staged.data && come_) std::memcpy(output_, staged.data.get(), come_);
  }
}

bool Receipt::awaits(int rank) const { return has_begun_ && rank == call_.targets.front() && !is_done(); }

std::unique_ptr<Operation> made(Call::Kind kind, Transport& transport, Id id) {
  switch (kind) {
    case Call::Kind::kReduce:
      return std::make_unique<Reduction>(transport, id);
    case Call::Kind::kGather:
      return std::make_unique<Gathering>(transport, id);
    case Call::Kind::kSend:
      return std::make_unique<Sending>(transport, id);
    case Call::Kind::kReceive:
      break;
  }
  return std::make_unique<Receipt>(transport, id);
}

}  // namespace autodist
