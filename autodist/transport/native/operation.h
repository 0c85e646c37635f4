// One collective under way: what has come, what has left, what is to be done next.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "transport.h"

namespace autodist {

// A message is to go to a process that is lost.
struct Unreachable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Operation {
 public:
  Operation(Transport& transport, Id id, Call::Kind kind);
  virtual ~Operation();

  // This process takes part from now on.
  void begin(Call call);
  bool has_begun() const { return has_begun_; }
  // Whether it has begun in the step of a watch.
  bool is_of(uint64_t watch) const { return has_begun_ && call_.watch == watch; }
  Call::Kind kind() const { return kind_; }

  // Where the bytes of a message go. All that its header says of them is checked: `Lost` if it can't be.
  virtual char* place(int rank, const Header& header) = 0;
  virtual void arrived(int rank, const Header& header) = 0;
  void sent(int rank) { --unsent_[rank]; }

  // Whether something is still to come from a process, or to go there.
  bool needs(int rank) const { return unsent_[rank] > 0 || awaits(rank); }
  bool is_complete() const;
  void finish(const std::string& error);
  // Whether nothing of it has come or gone yet, so that it can be dropped without a trace.
  virtual bool is_untouched() const { return false; }
  // Why it ends without a result; empty if it does not.
  virtual std::string refusal() const { return ""; }

 protected:
  virtual void advance() = 0;
  virtual void leave() = 0;
  virtual bool awaits(int rank) const = 0;
  virtual bool is_done() const = 0;

  int own() const { return transport_.rank_; }
  const std::vector<double>& fractions() const { return transport_.shares_; }
  int count() const { return static_cast<int>(transport_.peers_.size()); }
  void send(int rank, Kind kind, const char* data, size_t size, size_t total, int priority, size_t offset = 0);
  // Where the next bytes of a process are kept until it is known where they belong, of `total`, after what has come.
  char* staging(int rank, size_t come, size_t total);

  Transport& transport_;
  const Id id_;
  const Call::Kind kind_;
  Call call_;
  bool has_begun_ = false;
  std::vector<size_t> unsent_;  // messages, by rank
  std::vector<Pool::Buffer> staging_;
};

// The sum of tensors of the same size.
class Reduction final : public Operation {
 public:
  Reduction(Transport& transport, Id id);
  char* place(int rank, const Header& header) override;
  void arrived(int rank, const Header& header) override;

 protected:
  void leave() override;
  void advance() override;
  bool awaits(int rank) const override;
  bool is_done() const override;

 private:
  struct Range {
    size_t begin, size;
  };
  void divide(size_t total);

  std::vector<Range> shares_;    // by rank; empty until the tensor's size is known
  size_t total_ = 0;             // that size, bytes
  std::vector<size_t> parts_;    // bytes of the own share, by rank that they come from
  std::vector<size_t> sums_;     // bytes of the others' shares
  size_t summed_ = 0;            // bytes of the own share
};

// All tensors, one after another in the order of ranks; they may differ in size.
class Gathering final : public Operation {
 public:
  Gathering(Transport& transport, Id id);
  char* place(int rank, const Header& header) override;
  void arrived(int rank, const Header& header) override;

 protected:
  void leave() override;
  void advance() override;
  bool awaits(int rank) const override;
  bool is_done() const override;

 private:
  char* slot(int rank) const;

  std::vector<size_t> sizes_;    // by rank
  std::vector<bool> is_known_;   // whether the size is
  std::vector<size_t> come_;     // bytes
  std::vector<bool> is_staged_;  // whether the bytes that are on their way go into the staging
  char* output_ = nullptr;
};

// A tensor that goes to some of the others.
class Sending final : public Operation {
 public:
  Sending(Transport& transport, Id id);
  char* place(int rank, const Header& header) override;
  void arrived(int, const Header&) override {}

 protected:
  void leave() override;
  void advance() override {}
  bool awaits(int) const override { return false; }
  bool is_done() const override { return true; }
};

// A tensor that comes from one of the others.
class Receipt final : public Operation {
 public:
  Receipt(Transport& transport, Id id);
  char* place(int rank, const Header& header) override;
  void arrived(int rank, const Header& header) override;

 protected:
  void leave() override {}
  void advance() override;
  bool awaits(int rank) const override;
  bool is_done() const override { return is_refused_ || (output_ && is_come_ && come_ == total_); }
  bool is_untouched() const override { return !has_shape_ && !is_refused_ && shape_.empty() && refusal_.empty(); }
  std::string refusal() const override { return refusal_; }

 private:
  void check_source(int rank);

  int source_ = -1;  // the rank of the sender, once that is known
  std::vector<int64_t> shape_;
  bool has_shape_ = false;  // whether all of it has come
  std::string refusal_;    // words that come instead
  bool is_refused_ = false;  // whether these have come
  bool is_sized_ = false;  // whether the size is known
  bool is_come_ = false;   // whether any bytes have come, perhaps none at all
  size_t total_ = 0, come_ = 0;
  bool is_staged_ = false;  // whether the bytes that are on their way go into the staging
  char* output_ = nullptr;
};

std::unique_ptr<Operation> made(Call::Kind kind, Transport& transport, Id id);

}  // namespace autodist
