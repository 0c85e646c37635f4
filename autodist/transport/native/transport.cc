#include "transport.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include "operation.h"

namespace autodist {
namespace {

constexpr int kWakeup = -1;  // instead of a rank
constexpr int kMostEvents = 64;
constexpr int kNice = -10;
constexpr uint64_t kSliceNs = 100'000;
constexpr int32_t kMostRounds = 1 << 16;      // how many a process may be ahead of this one
constexpr size_t kMostOperations = 1 << 20;   // under way at a time
constexpr std::chrono::seconds kPatience{1};  // with the others' part in a step that has failed here

// Has the system run this thread soon after there is something to do, next to threads that compute: what it does takes
// little time, and others wait for it. A short slice may be asked for by anyone (Linux 6.12), a lower niceness by few.
void run_soon() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } wanted{48, 0, 0, kNice, 0, kSliceNs, 0, 0};
  if (syscall(SYS_sched_setattr, 0, &wanted, 0) == 0) return;
  wanted.nice = 0;
  (void)syscall(SYS_sched_setattr, 0, &wanted, 0);
}

// What a message belongs to, at its receiver.
Call::Kind kind_of(Kind kind) {
  switch (kind) {
    case Kind::kPart:
    case Kind::kSum:
      return Call::Kind::kReduce;
    case Kind::kGather:
      return Call::Kind::kGather;
    default:
      return Call::Kind::kReceive;
  }
}

}  // namespace

Transport::Transport(int rank, Channels channels, std::vector<double> shares, const std::vector<bool>& coding)
    : rank_(rank), shares_(std::move(shares)), wakeup_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = kWakeup;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wakeup_, &event);
  for (int other = 0; other < static_cast<int>(channels.size()); ++other) {
    if (other == rank) {
      peers_.push_back(nullptr);
      continue;
    }
    const int socket = channels[other]->socket();
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
    peers_.push_back(std::make_unique<Peer>(std::move(channels[other]), coding[other]));
    event.data.fd = other;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event);
  }
  thread_ = std::thread([this] { run(); });
}

Transport::~Transport() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
  }
  wake();
  thread_.join();
  close(wakeup_);
  close(epoll_);
}

void Transport::wake() {
  const uint64_t one = 1;
  (void)!write(wakeup_, &one, sizeof one);
}

void Transport::start(std::vector<Call> calls) {
  bool is_first;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_first = inbox_.empty();
    std::move(calls.begin(), calls.end(), std::back_inserter(inbox_));
  }
  if (is_first) wake();
}

void Transport::withdraw(uint64_t key) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    withdrawn_.push_back(key);
  }
  wake();
}

void Transport::abandon(uint64_t watch) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    abandoned_.push_back(watch);
  }
  wake();
}

void Transport::handle_events() {
  epoll_event events[kMostEvents];
  const auto has_unread = [](const auto& peer) { return peer && !peer->is_gone && peer->has_unread(); };
  const bool is_busy = std::any_of(peers_.begin(), peers_.end(), has_unread);
  const int count = epoll_wait(epoll_, events, kMostEvents, is_busy ? 0 : patience_ms());
  for (int k = 0; k < count; ++k) {
    const int rank = events[k].data.fd;
    if (rank == kWakeup) {
      take_inbox();
    } else {
      if (events[k].events & ~EPOLLOUT) receive(rank);
      if (events[k].events & EPOLLOUT) flush(rank);
    }
  }
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    if (has_unread(peers_[rank])) receive(rank);
    if (peers_[rank] && !peers_[rank]->is_writing) flush(rank);
  }
  end_abandoned();
}

// The time to the next deadline; -1 if there is none.
int Transport::patience_ms() const {
  if (deadlines_.empty()) return -1;
  const auto left = std::min_element(deadlines_.begin(), deadlines_.end(), [](const auto& one, const auto& other) {
                      return one.second < other.second;
                    })->second - std::chrono::steady_clock::now();
  return std::max(0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

void Transport::end_abandoned() {
  if (deadlines_.empty()) return;
  const auto now = std::chrono::steady_clock::now();
  bool waits_in_vain = false;
  for (auto one = deadlines_.begin(); one != deadlines_.end();) {
    if (one->second > now) {
      ++one;
      continue;
    }
    const auto belongs = [watch = one->first](const auto& other) { return other.second->is_of(watch); };
    waits_in_vain = waits_in_vain || std::any_of(operations_.begin(), operations_.end(), belongs);
    one = deadlines_.erase(one);
  }
  if (!waits_in_vain) return;
  if (broken_.empty()) broken_ = "a step has failed on this worker";
  fail();
}

void Transport::run() {
  run_soon();
  for (;;) {
    // What is thrown here must not end the process, nor keep anybody waiting.
    try {
      handle_events();
    } catch (const std::exception& error) {
      fail(error);
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_stopping_) break;
  }
  broken_ = "the connections were closed";
  fail();
  take_inbox();
}

void Transport::take_inbox() {
  uint64_t ignored;
  (void)!read(wakeup_, &ignored, sizeof ignored);
  std::vector<Call> calls;
  std::vector<uint64_t> withdrawn, abandoned;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls.swap(inbox_);
    withdrawn.swap(withdrawn_);
    abandoned.swap(abandoned_);
  }
  for (Call& call : calls) begin(std::move(call));
  for (const uint64_t key : withdrawn) end_untouched(key);
  for (const uint64_t watch : abandoned) deadlines_.emplace(watch, std::chrono::steady_clock::now() + kPatience);
}

void Transport::end_untouched(uint64_t key) {
  const auto rounds = rounds_.find(key);
  if (rounds == rounds_.end()) return;
  const auto found = operations_.find({key, rounds->second - 1});
  if (found == operations_.end() || !found->second->has_begun() || !found->second->is_untouched()) return;
  const std::unique_ptr<Operation> operation = std::move(found->second);
  operations_.erase(found);
  --rounds->second;
  operation->finish("it was withdrawn");
}

void Transport::begin(Call call) {
  if (!broken_.empty()) return call.done(broken_);
  const Id id{call.key, rounds_[call.key]++};
  Operation* found = nullptr;
  try {
    found = &operation(id, call.kind);
    found->begin(std::move(call));
  } catch (const std::exception& error) {
    fail(error);
    if (!found) call.done(broken_);
    return;
  }
  end_if_complete(id);
}

Operation& Transport::operation(const Id& id, Call::Kind kind) {
  std::unique_ptr<Operation>& found = operations_[id];
  if (!found) found = made(kind, *this, id);
  if (found->kind() != kind) throw Lost("it takes part in another collective of the same name");
  return *found;
}

// What a message belongs to. Its sender may be ahead, within limits; what has ended here gets nothing more.
Operation& Transport::addressed(const Header& header) {
  const Id id{header.key, header.round};
  if (operations_.count(id) == 0) {
    const auto begun = rounds_.find(header.key);
    const auto ahead = static_cast<int32_t>(header.round - (begun == rounds_.end() ? 0 : begun->second));
    if (ahead < 0 || ahead > kMostRounds) throw Lost("it sent what nobody waits for");
    if (operations_.size() >= kMostOperations) throw Lost("it is too far ahead");
  }
  return operation(id, kind_of(header.kind));
}

void Transport::receive(int rank) {
  if (peers_[rank]->is_gone) return;
  try {
    peers_[rank]->receive([&](const Header& header) { return addressed(header).place(rank, header); },
                          [&](const Header& header) {
                            addressed(header).arrived(rank, header);
                            end_if_complete({header.key, header.round});
                          });
  } catch (const Lost& error) {
    lose(rank, error.what());
  } catch (const std::bad_alloc&) {
    lose(rank, "there is no memory for what it sends");
  } catch (const Unreachable&) {
    fail();  // what has come is to go on to a process that was lost before
  }
}

void Transport::flush(int rank) {
  Peer& peer = *peers_[rank];
  if (peer.is_gone) return;
  try {
    peer.flush([&](const Header& header) {
      const Id id{header.key, header.round};
      operations_.at(id)->sent(rank);
      end_if_complete(id);
    });
  } catch (const Lost& error) {
    return lose(rank, error.what());
  }
  if (peer.has_queued() != peer.is_writing) watch(rank, peer.has_queued());
}

void Transport::watch(int rank, bool writing) {
  epoll_event event{};
  event.events = EPOLLIN | (writing ? EPOLLOUT : 0u);
  event.data.fd = rank;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, peers_[rank]->socket(), &event);
  peers_[rank]->is_writing = writing;
}

void Transport::end_if_complete(const Id& id) {
  const auto found = operations_.find(id);
  if (found == operations_.end() || !found->second->is_complete()) return;
  const std::unique_ptr<Operation> operation = std::move(found->second);
  operations_.erase(found);
  operation->finish(operation->refusal());
}

// Nothing can begin any more. What others owe each other still arrives, unless something waits for the one that is lost.
void Transport::lose(int rank, const std::string& why) {
  if (broken_.empty()) broken_ = "worker " + std::to_string(rank) + " is lost: " + why;
  Peer& peer = *peers_[rank];
  peer.is_gone = true;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, peer.socket(), nullptr);
  const auto needs = [rank](const auto& one) { return one.second->has_begun() && one.second->needs(rank); };
  if (std::any_of(operations_.begin(), operations_.end(), needs)) fail();
}

void Transport::fail(const std::exception& error) {
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  if (broken_.empty()) broken_ = is_memory ? "there is no memory for what the workers exchange" : error.what();
  fail();
}

// Ends all that has begun. The sockets stay open until the process ends, so that each process learns by itself who is
// lost.
void Transport::fail() {
  for (auto& peer : peers_) {
    if (!peer || peer->is_gone) continue;
    peer->is_gone = true;
    epoll_ctl(epoll_, EPOLL_CTL_DEL, peer->socket(), nullptr);
  }
  for (auto& peer : peers_) {
    if (peer) peer->drop();
  }
  auto operations = std::move(operations_);
  operations_.clear();
  for (auto& one : operations) one.second->finish(broken_);
}

}  // namespace autodist
