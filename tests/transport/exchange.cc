// Three processes' transports in one process, for the sanitizers: many collectives at once, begun by several threads,
// and what happens where one is lost. Ends with 0 if all is as it should be.

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "encrypted.h"
#include "openssl.h"
#include "peer.h"
#include "transport.h"

using autodist::Call;
using autodist::Channels;
using autodist::encrypted;
using autodist::Header;
using autodist::Kind;
using autodist::Lost;
using autodist::plain;
using autodist::Transport;

namespace {

constexpr int kCount = 3, kRounds = 6, kTensors = 8;
constexpr size_t kFloats = 60'000;
constexpr auto kMostWait = std::chrono::seconds(60);
const std::vector<double> kShares = {0.5, 0.25, 0.25};

void expect(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

struct Pairs {
  int ends[kCount][kCount];
  Pairs() {
    for (int one = 0; one < kCount; ++one) {
      ends[one][one] = -1;
      for (int other = one + 1; other < kCount; ++other) {
        int pair[2];
        expect(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "sockets are to be had");
        ends[one][other] = pair[0];
        ends[other][one] = pair[1];
      }
    }
  }
  std::vector<int> of(int rank) const { return {ends[rank], ends[rank] + kCount}; }
};

// A call that can be waited for.
struct Task {
  std::vector<float> input, output;
  std::promise<std::string> end;

  Call call(uint64_t key, Call::Kind kind, size_t size, float value) {
    output.reserve(1);  // what is empty has a place as well
    input.assign(size, value);
    output.assign(size, -1);
    Call call;
    call.kind = kind;
    call.key = key;
    call.input = reinterpret_cast<const char*>(input.data());
    call.size = 4 * size;
    call.output = reinterpret_cast<char*>(output.data());
    call.shape = {static_cast<int64_t>(size)};
    call.gather = [this](const std::vector<size_t>& sizes) {
      size_t total = 0;
      for (const size_t one : sizes) total += one;
      output.assign(total / 4, -1);
      return reinterpret_cast<char*>(output.data());
    };
    call.receive = [this](const std::vector<int64_t>&, size_t bytes) {
      output.assign(bytes / 4, -1);
      return reinterpret_cast<char*>(output.data());
    };
    call.done = [this](const std::string& error) { end.set_value(error); };
    return call;
  }
  std::string wait() {
    auto future = end.get_future();
    expect(future.wait_for(kMostWait) == std::future_status::ready, "each call ends");
    return future.get();
  }
};

void expect_all(const std::vector<float>& values, size_t begin, size_t size, float wanted) {
  expect(values.size() >= begin + size, "the tensor is whole");
  for (size_t k = begin; k < begin + size; ++k) expect(values[k] == wanted, "the values are right");
}

// One process: each tensor is summed, gathered, and sent around in a ring, over and over.
void take_part(Transport& transport, int rank) {
  const int next = (rank + 1) % kCount, previous = (rank + kCount - 1) % kCount;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::unique_ptr<Task>> tasks;
    for (int tensor = 0; tensor < kTensors; ++tensor) {
      const size_t size = tensor % 2 ? kFloats : static_cast<size_t>(tensor * 10);
      const uint64_t key = 100 * static_cast<uint64_t>(tensor);
      const auto begin = [&](uint64_t at, Call::Kind kind, int target, size_t floats) {
        tasks.push_back(std::make_unique<Task>());
        Call call = tasks.back()->call(key + at, kind, floats, static_cast<float>(rank + round));
        call.targets = {target};
        call.priority = tensor;
        transport.start(std::move(call));
      };
      begin(0, Call::Kind::kReduce, next, size);
      begin(1, Call::Kind::kGather, next, size + static_cast<size_t>(rank));
      begin(2 + static_cast<uint64_t>(rank), Call::Kind::kSend, next, size);
      begin(2 + static_cast<uint64_t>(previous), Call::Kind::kReceive, previous, 0);
    }
    for (const auto& task : tasks) {
      const std::string error = task->wait();
      expect(error.empty(), error.c_str());
    }
    for (size_t k = 0; k < tasks.size(); k += 4) {
      const size_t size = tasks[k]->input.size();
      const auto first = static_cast<float>(round);
      expect_all(tasks[k]->output, 0, size, 3 * first + 3);
      for (size_t other = 0, begin = 0; other < kCount; begin += size + other, ++other) {
        expect_all(tasks[k + 1]->output, begin, size + other, first + static_cast<float>(other));
      }
      expect_all(tasks[k + 3]->output, 0, size, first + static_cast<float>(previous));
    }
  }
}

using Keys = std::vector<unsigned char>;

// The channels of all processes; those that are encrypted agree on it at the same time.
std::vector<Channels> channels(const Pairs& pairs, bool is_encrypted) {
  std::vector<Channels> found(kCount);
  std::vector<std::thread> threads;
  const Keys keys(kCount * autodist::kKeyBytes, 7);
  for (int rank = 0; rank < kCount; ++rank) {
    threads.emplace_back([&, rank] {
      found[rank] = is_encrypted ? encrypted(rank, pairs.of(rank), keys.data(), 30) : plain(pairs.of(rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return found;
}

void exchange(bool is_encrypted) {
  const Pairs pairs;
  std::vector<Channels> all = channels(pairs, is_encrypted);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < kCount; ++rank) {
    const std::vector<bool> coding(kCount, rank == 1);
    transports.push_back(std::make_unique<Transport>(rank, std::move(all[rank]), kShares, coding));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kCount; ++rank) {
    threads.emplace_back([&transports, rank] { take_part(*transports[static_cast<size_t>(rank)], rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

void put(int socket, const Header& header, const std::vector<char>& bytes) {
  expect(write(socket, &header, sizeof header) == sizeof header, "a header leaves");
  expect(write(socket, bytes.data(), header.length) == header.length, "a message leaves");
}

// Until all that was sent to a transport is read, from its end: what comes after that is seen later.
void wait_until_read(int end) {
  const auto began = std::chrono::steady_clock::now();
  for (int left = 1; left > 0;) {
    expect(ioctl(end, FIONREAD, &left) == 0, "the system says what waits");
    expect(std::chrono::steady_clock::now() - began < kMostWait, "what is sent is read");
    if (left > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void drain(int socket, size_t size) {
  std::vector<char> bytes(size);
  expect(recv(socket, bytes.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size), "what was sent comes");
}

// Process 1 has given and got all that it can before the sum of process 0, and is lost; then the last part comes.
void lose_before_the_last_part() {
  const Pairs pairs;
  const int one = pairs.ends[1][0], two = pairs.ends[2][0];
  Transport transport(0, plain(pairs.of(0)), kShares, std::vector<bool>(kCount, false));
  constexpr size_t kSize = 100'000 / 64 * 64;  // bytes, whose owners are all
  Task task;
  transport.start(task.call(7, Call::Kind::kReduce, kSize / 4, 1));
  const size_t parts[] = {kSize / 2 / 64 * 64, 0, 0};
  const size_t second = kSize * 3 / 4 / 64 * 64 - parts[0];
  const std::vector<char> bytes(kSize);
  const auto header = [&](size_t size, Kind kind) {
    return Header{7, 0, kSize, 0, static_cast<uint32_t>(size), 0, kind};
  };
  drain(one, sizeof(Header) + second);  // the part of process 1
  put(one, header(parts[0], Kind::kPart), bytes);
  put(one, header(second, Kind::kSum), bytes);
  close(one);  // of two ends that have something to read, the transport takes first that which had it first
  wait_until_read(pairs.ends[0][1]);
  put(two, header(parts[0], Kind::kPart), bytes);
  expect(task.wait().find("worker 1 is lost") == 0, "who waits for the sum is told who is lost");
}

// A part that comes twice is not added twice.
void repeat_a_part() {
  const Pairs pairs;
  Transport transport(0, plain(pairs.of(0)), kShares, std::vector<bool>(kCount, false));
  Task task;
  transport.start(task.call(0, Call::Kind::kReduce, 100, 1));  // of which process 0 is the owner
  const Header header{0, 0, 400, 0, 400, 0, Kind::kPart};
  put(pairs.ends[1][0], header, std::vector<char>(400));
  wait_until_read(pairs.ends[0][1]);
  put(pairs.ends[1][0], header, std::vector<char>(400));
  put(pairs.ends[2][0], header, std::vector<char>(400));
  expect(task.wait().find("worker 1 is lost: it sent more than its tensor") == 0, "who sends twice is named");
}

// Our tensor has another size than the one that was announced before.
void differ_in_size() {
  const Pairs pairs;
  Transport transport(0, plain(pairs.of(0)), kShares, std::vector<bool>(kCount, false));
  put(pairs.ends[1][0], {0, 0, 800, 0, 800, 0, Kind::kPart}, std::vector<char>(800));
  wait_until_read(pairs.ends[0][1]);
  Task task;
  transport.start(task.call(0, Call::Kind::kReduce, 100, 1));
  expect(task.wait().find("800 bytes, but 400 here") != std::string::npos, "both sizes are told");
}

// A refusal ends a receipt with its words, and the next round is as if nothing had been; what is withdrawn begins anew.
void refuse_and_withdraw() {
  const Pairs pairs;
  const std::vector<bool> coding(kCount, true);
  Transport asker(0, plain(pairs.of(0)), kShares, coding), owner(1, plain(pairs.of(1)), kShares, coding);
  const auto receive = [&](Task& task) {
    Call call = task.call(5, Call::Kind::kReceive, 0, 0);
    call.targets = {1};
    asker.start(std::move(call));
  };
  const auto send = [&](Task& task, const std::string& words) {
    Call call = task.call(5, Call::Kind::kSend, 3000, 7);
    call.targets = {0};
    if (!words.empty()) {
      call.is_refusal = true;
      call.input = words.data();
      call.size = words.size();
    }
    owner.start(std::move(call));
    expect(task.wait().empty(), "it leaves");
  };
  const std::string words(4000, 'n');  // of a length that floats would be encoded at
  for (const bool is_first : {true, false}) {
    Task refused, refusal;
    if (is_first) receive(refused);
    send(refusal, words);
    if (!is_first) receive(refused);
    expect(refused.wait() == words, "the words are told");
  }
  Task withdrawn, sent, received;
  receive(withdrawn);
  asker.withdraw(5);
  expect(withdrawn.wait() == "it was withdrawn", "nobody waits any more");
  asker.withdraw(5);  // of what is no longer there
  asker.withdraw(6);
  send(sent, "");
  receive(received);
  expect(received.wait().empty(), "what comes later is for the next one");
  expect_all(received.output, 0, 3000, 7);
}

// What belongs to a step that has failed here ends after a while, even if the others still want something; what comes
// in that time, and what belongs to other steps, ends nothing.
void abandon() {
  const Pairs pairs;
  const std::vector<bool> coding(kCount, false);
  Transport own(0, plain(pairs.of(0)), kShares, coding), other(1, plain(pairs.of(1)), kShares, coding);
  const auto receive = [&](Task& task, uint64_t key, uint64_t watch) {
    Call call = task.call(key, Call::Kind::kReceive, 0, 0);
    call.targets = {1};
    call.watch = watch;
    own.start(std::move(call));
  };
  Task elsewhere, late, sent, again;
  receive(elsewhere, 5, 8);
  receive(late, 6, 9);
  own.abandon(9);
  own.abandon(10);
  other.start([&] {
    Call call = sent.call(6, Call::Kind::kSend, 3000, 7);
    call.targets = {0};
    return call;
  }());
  expect(sent.wait().empty() && late.wait().empty(), "what comes in time is taken");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  receive(again, 6, 9);
  own.abandon(9);
  const auto began = std::chrono::steady_clock::now();
  expect(again.wait() == "a step has failed on this worker", "nobody waits in vain");
  expect(std::chrono::steady_clock::now() - began > std::chrono::milliseconds(500), "there was time for the others");
  expect(elsewhere.wait() == "a step has failed on this worker", "nothing goes on after that");
}

// Words that are longer than any refusal, and none at all.
void refuse_without_reason() {
  for (const uint32_t size : {5000u, 0u}) {
    const Pairs pairs;
    Transport transport(0, plain(pairs.of(0)), kShares, std::vector<bool>(kCount, false));
    Task task;
    Call call = task.call(5, Call::Kind::kReceive, 0, 0);
    call.targets = {1};
    transport.start(std::move(call));
    put(pairs.ends[1][0], {5, 0, size, 0, size, 0, Kind::kRefusal}, std::vector<char>(size));
    expect(task.wait().find("worker 1 is lost: it sent what is no refusal") == 0, "who sends it is named");
  }
}

// Who has another key, or speaks in the clear, is turned away, and so are bytes that were changed on the way.
void keep_strangers_out() {
  const auto refused = [](const std::function<void(int)>& stranger) {
    int ends[2];
    expect(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "sockets are to be had");
    std::thread other([&] { stranger(ends[1]); });
    std::string why;
    try {
      encrypted(1, {ends[0], -1}, Keys(2 * autodist::kKeyBytes, 7).data(), 1);
    } catch (const Lost& error) {
      why = error.what();
    }
    other.join();
    return why;
  };
  const auto with_another_key = [](int socket) {
    try {
      encrypted(0, {-1, socket}, Keys(2 * autodist::kKeyBytes, 8).data(), 5);
      expect(false, "another key does not do");
    } catch (const Lost&) {
    }
  };
  expect(refused(with_another_key).find("worker 0: ") == 0, "who has another key is named");
  expect(refused([](int socket) {
           char hello[1000];
           expect(read(socket, hello, sizeof hello) > 0, "it hears how the other one begins");
           expect(write(socket, "no TLS at all", 13) == 13, "it is heard");
           (void)!read(socket, hello, sizeof hello);  // until the other one has left
           close(socket);
         }).find("is not of this run") != std::string::npos, "who speaks in the clear is turned away");
  expect(refused([](int socket) {
           std::this_thread::sleep_for(std::chrono::seconds(2));
           close(socket);
         }).find("in time") != std::string::npos, "who is silent is not waited for");
}

}  // namespace

int main() {
  exchange(false);
  expect(autodist::openssl() != nullptr, "there is OpenSSL");
  exchange(true);
  keep_strangers_out();
  lose_before_the_last_part();
  repeat_a_part();
  differ_in_size();
  refuse_and_withdraw();
  abandon();
  refuse_without_reason();
}
