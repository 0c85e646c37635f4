// Collectives between the processes of a run, over one TCP connection for each pair of them.
//
// An all-reduce divides a tensor among the processes: each sums its own share of it. Everybody sends everybody's share
// there, piece by piece as the link takes it, and each piece of a sum leaves as soon as all parts of it have come. The
// parts are added in the order of ranks, so that a run can be repeated bit by bit.
//
// One thread does all of it. What it touches is its own, but for the inbox by which operations come to it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "peer.h"
#include "summing.h"

namespace autodist {

// Called once, with an empty text or what went wrong.
using Done = std::function<void(const std::string& error)>;

// What this process takes part in. The key is the same for all that do, and for each round.
struct Call {
  enum class Kind { kReduce, kGather, kSend, kReceive };
  Kind kind;
  uint64_t key;
  Done done;
  const char* input = nullptr;  // of all but a receipt; stays where it is until `done`
  size_t size = 0;
  uint64_t watch = 0;  // that of the step it belongs to; 0 for none
  int priority = 0;  // what has a lower number leaves first
  DataType type = DataType::kFloat;  // of the input
  // Of an all-reduce, whose input has the same size everywhere; `output` may be `input`.
  char* output = nullptr;
  // Where a gathered tensor goes, given how many bytes each process has; null if there is no memory.
  std::function<char*(const std::vector<size_t>& sizes)> gather;
  // Of what is sent: its dimensions, and the ranks that get it.
  std::vector<int64_t> shape;
  std::vector<int> targets;
  bool is_refusal = false;  // whether it says why there is no tensor, instead of sending one
  // Where a received tensor of this shape and size goes; null if it does not fit or there is no memory.
  std::function<char*(const std::vector<int64_t>& shape, size_t size)> receive;
};

// An operation, by its key and how often that was used before.
struct Id {
  uint64_t key;
  uint32_t round;
  bool operator==(const Id& other) const { return key == other.key && round == other.round; }
};

class Operation;

class Transport {
 public:
  // One channel for each other rank, null at the own one. `shares` says by rank which part of a large
  // tensor is summed there; they add up to 1. `coding` says by rank whether floats that go there are encoded.
  Transport(int rank, Channels channels, std::vector<double> shares, const std::vector<bool>& coding);

  // Fails what is under way.
  ~Transport();

  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // From any thread. Calls with the same key must come in the same order on all processes; those that are given
  // together come together.
  void start(std::vector<Call> calls);
  void start(Call call) {
    std::vector<Call> one;
    one.push_back(std::move(call));
    start(std::move(one));
  }

  // Fails a receipt that waits, if nothing of it has come: what comes later is for the next one of the key.
  void withdraw(uint64_t key);

  // A step has failed here: ends all that has begun, unless what belongs to the step's watch is over within a short
  // time. Others may fail in the same step, and then never send what this process waits for. From any thread; waits
  // for nothing.
  void abandon(uint64_t watch);

 private:
  friend class Operation;

  struct Hash {
    size_t operator()(const Id& id) const { return id.key ^ (id.round * 0x9E3779B97F4A7C15ull); }
  };

  void run();
  void take_inbox();
  void begin(Call call);
  void end_untouched(uint64_t key);
  int patience_ms() const;
  void end_abandoned();
  void wake();
  void receive(int rank);
  void watch(int rank, bool writing);
  void flush(int rank);
  Operation& operation(const Id& id, Call::Kind kind);
  Operation& addressed(const Header& header);
  void handle_events();
  void end_if_complete(const Id& id);
  void lose(int rank, const std::string& why);
  void fail();
  void fail(const std::exception& error);

  const int rank_;
  const std::vector<double> shares_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank, null for the own one
  std::unordered_map<Id, std::unique_ptr<Operation>, Hash> operations_;
  std::unordered_map<uint64_t, uint32_t> rounds_;
  Pool pool_;
  std::unordered_map<uint64_t, std::chrono::steady_clock::time_point> deadlines_;  // by watch of a failed step
  std::string broken_;  // why nothing can begin any more

  std::mutex mutex_;
  std::vector<Call> inbox_;    // guarded by mutex_
  std::vector<uint64_t> withdrawn_;  // guarded by mutex_
  std::vector<uint64_t> abandoned_;  // guarded by mutex_
  bool is_stopping_ = false;   // guarded by mutex_
  int wakeup_ = -1;
  int epoll_ = -1;
  std::thread thread_;
};

}  // namespace autodist
