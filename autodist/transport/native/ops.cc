// The collectives as operations of TensorFlow, and the functions by which Python opens and closes the connections.

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "encrypted.h"
#include "openssl.h"
#include "summing.h"
#include "tensorflow.h"
#include "transport.h"

namespace autodist {
namespace {

std::mutex mutex;
std::shared_ptr<Transport> connections;  // guarded by mutex

std::shared_ptr<Transport> connected() {
  const std::lock_guard<std::mutex> lock(mutex);
  return connections;
}

struct Status {
  Status() : status(tensorflow()->NewStatus()) {}
  ~Status() { tensorflow()->DeleteStatus(status); }
  bool is_ok() const { return tensorflow()->GetCode(status) == kOk; }
  TF_Status* const status;
};

// An operation that is under way: what it needs stays until it is done.
class Running {
 public:
  // What `done` points to ends with the call of the kernel (TensorFlow 2.21, c/kernels.cc), so it is copied: it is a
  // std::function of libstdc++, with which TensorFlow's libraries are built as this one is.
  Running(TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done)
      : context_(context), done_(*reinterpret_cast<std::function<void()>*>(done)),
        inputs_(static_cast<size_t>(tensorflow()->NumInputs(context))) {
    for (size_t k = 0; k < inputs_.size(); ++k) {
      Status status;
      tensorflow()->GetInput(context, static_cast<int>(k), &inputs_[k], status.status);
      if (!status.is_ok()) fail(tensorflow()->Message(status.status));
    }
  }

  ~Running() {
    for (TF_Tensor* tensor : inputs_) {
      if (tensor) tensorflow()->DeleteTensor(tensor);
    }
    for (TF_Tensor* tensor : outputs_) tensorflow()->DeleteTensor(tensor);
    if (!error_.empty()) {
      Status status;
      tensorflow()->SetStatus(status.status, code_, error_.c_str());
      tensorflow()->OpKernelContext_Failure(context_, status.status);
    }
    done_();
  }

  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void fail(const std::string& error, int code = kAborted) {
    const std::lock_guard<std::mutex> lock(mutex_);
    error_ = error;
    code_ = code;
  }
  bool is_ok() const { return error_.empty(); }
  size_t num_inputs() const { return inputs_.size(); }
  int type(size_t k = 0) const { return tensorflow()->TensorType(inputs_[k]); }
  const char* input(size_t k = 0) const { return static_cast<const char*>(tensorflow()->TensorData(inputs_[k])); }
  size_t size(size_t k = 0) const { return tensorflow()->TensorByteSize(inputs_[k]); }
  int num_outputs() const { return tensorflow()->NumOutputs(context_); }

  std::vector<int64_t> shape(size_t k = 0) const {
    std::vector<int64_t> dims(static_cast<size_t>(tensorflow()->NumDims(inputs_[k])));
    for (size_t d = 0; d < dims.size(); ++d) dims[d] = tensorflow()->Dim(inputs_[k], static_cast<int>(d));
    return dims;
  }

  // Memory of an output; null if there is none.
  char* allocate(int k, const std::vector<int64_t>& shape, size_t size) {
    static char nothing;
    Status status;
    TF_Tensor* output =
        tensorflow()->AllocateOutput(context_, k, tensorflow()->ExpectedOutputDataType(context_, k), shape.data(),
                                     static_cast<int>(shape.size()), size, status.status);
    if (!status.is_ok()) return nullptr;
    outputs_.push_back(output);
    return size ? static_cast<char*>(tensorflow()->TensorData(output)) : &nothing;
  }

  // Bytes of an element of an output.
  size_t element(int k) const { return tensorflow()->DataTypeSize(tensorflow()->ExpectedOutputDataType(context_, k)); }

 private:
  TF_OpKernelContext* const context_;
  const std::function<void()> done_;
  std::vector<TF_Tensor*> inputs_;
  std::vector<TF_Tensor*> outputs_;
  std::mutex mutex_;
  std::string error_;  // guarded by mutex_ once something has started
  int code_ = kAborted;
};

constexpr char kAnswer[] = "/answer";  // what follows the name of a question in that of its answer

// FNV-1a, over 64 bits: the same on all machines.
uint64_t hash(const std::string& text) {
  uint64_t value = 14695981039346656037ull;
  for (const unsigned char letter : text) value = (value ^ letter) * 1099511628211ull;
  return value;
}

// What an operation is told by its attributes.
struct Attributes {
  uint64_t key;
  uint64_t answer;  // the key of what is answered
  std::vector<int> ranks;
  int priority;
  int64_t below;  // what whole numbers that are sent must be; -1 for anything
  uint64_t watch;  // the key of the operation that watches over the step; 0 for none
};

std::string text_of(TF_OpKernelConstruction* construction, const char* name, TF_Status* status) {
  int32_t list_size = 0, size = 0;
  tensorflow()->OpKernelConstruction_GetAttrSize(construction, name, &list_size, &size, status);
  std::string text(static_cast<size_t>(size > 0 ? size : 0), '\0');
  if (tensorflow()->GetCode(status) == kOk) {
    tensorflow()->OpKernelConstruction_GetAttrString(construction, name, &text[0], text.size(), status);
  }
  return text;
}

std::vector<int> numbers_of(TF_OpKernelConstruction* construction, const char* name, TF_Status* status) {
  int32_t list_size = 0, size = 0;
  tensorflow()->OpKernelConstruction_GetAttrSize(construction, name, &list_size, &size, status);
  std::vector<int32_t> numbers(static_cast<size_t>(list_size > 0 ? list_size : 0));
  if (tensorflow()->GetCode(status) == kOk) {
    tensorflow()->OpKernelConstruction_GetAttrInt32List(construction, name, numbers.data(),
                                                        static_cast<int>(numbers.size()), status);
  }
  return {numbers.begin(), numbers.end()};
}

void* create(TF_OpKernelConstruction* construction) {
  Status status;
  const std::string name = text_of(construction, "collective", status.status);
  uint64_t key = hash(name);
  std::vector<int> ranks;
  int32_t priority = 0;
  int64_t below = -1;
  int32_t place = -1;
  if (status.is_ok()) ranks = numbers_of(construction, "ranks", status.status);
  if (status.is_ok()) {
    tensorflow()->OpKernelConstruction_GetAttrInt32(construction, "priority", &priority, status.status);
  }
  if (status.is_ok()) tensorflow()->OpKernelConstruction_GetAttrInt64(construction, "below", &below, status.status);
  if (status.is_ok()) tensorflow()->OpKernelConstruction_GetAttrInt32(construction, "place", &place, status.status);
  std::string watch;
  if (status.is_ok()) watch = text_of(construction, "watch", status.status);
  if (!status.is_ok()) tensorflow()->OpKernelConstruction_Failure(construction, status.status);
  if (place >= 0) key = static_cast<uint64_t>(place) << 48 | key >> 16;
  const uint64_t watch_key = watch.empty() ? 0 : hash(watch);
  return new Attributes{key, hash(name + kAnswer), std::move(ranks), priority, below, watch_key};
}

void destroy(void* attributes) { delete static_cast<Attributes*>(attributes); }

// The calls of an operation begin together. The k-th tensor of a question, or of an answer, has a key of its own.
class Starting {
 public:
  Starting(void* kernel, std::shared_ptr<Running> running)
      : attributes_(*static_cast<Attributes*>(kernel)), running_(std::move(running)) {}

  void add(Call call, uint64_t key) {
    if (call.input) call.type = static_cast<DataType>(running_->type(calls_.size()));
    call.key = key;
    call.priority = attributes_.priority;
    call.watch = attributes_.watch;
    call.targets = attributes_.ranks;
    call.done = [running = running_](const std::string& error) {
      if (!error.empty()) running->fail(error);
    };
    calls_.push_back(std::move(call));
  }

  void send_all() {
    for (size_t k = 0; k < running_->num_inputs(); ++k) {
      Call call;
      call.kind = Call::Kind::kSend;
      call.input = running_->input(k);
      call.size = running_->size(k);
      call.shape = running_->shape(k);
      add(std::move(call), attributes_.key + k);
    }
  }

  void receive_all(uint64_t key) {
    for (int k = 0; k < running_->num_outputs(); ++k) {
      Call call;
      call.kind = Call::Kind::kReceive;
      call.receive = [running = running_, k](const std::vector<int64_t>& shape, size_t size) -> char* {
        int64_t elements = 1;  // TensorFlow counts them so, and ends the process where that is not possible
        for (const int64_t dim : shape) {
          if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements)) return nullptr;
        }
        size_t expected = running->element(k);
        if (__builtin_mul_overflow(expected, static_cast<size_t>(elements), &expected)) return nullptr;
        return expected == size ? running->allocate(k, shape, size) : nullptr;
      };
      add(std::move(call), key + static_cast<uint64_t>(k));
    }
  }

  void begin() {
    const std::shared_ptr<Transport> transport = connected();
    if (!transport) return running_->fail("the workers are not connected");
    transport->start(std::move(calls_));
  }

 private:
  const Attributes& attributes_;
  const std::shared_ptr<Running> running_;
  std::vector<Call> calls_;
};

// An operation with one call.
void start(void* kernel, const std::shared_ptr<Running>& running, Call call) {
  Starting starting(kernel, running);
  starting.add(std::move(call), static_cast<Attributes*>(kernel)->key);
  starting.begin();
}

void all_reduce(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  const auto running = std::make_shared<Running>(context, done);
  if (!running->is_ok()) return;
  Call call;
  call.kind = Call::Kind::kReduce;
  call.input = running->input();
  call.size = running->size();
  call.output = running->allocate(0, running->shape(), running->size());
  if (!call.output) return running->fail("there is no memory for a sum");
  start(kernel, running, std::move(call));
}

void all_gather(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  const auto running = std::make_shared<Running>(context, done);
  if (!running->is_ok()) return;
  std::vector<int64_t> shape = running->shape();
  if (shape.empty()) return running->fail("a scalar can't be gathered");
  size_t row = running->element(0);  // bytes
  for (size_t k = 1; k < shape.size(); ++k) row *= static_cast<size_t>(shape[k]);
  // Rows without elements, such as those of examples that no replica has, are only counted: a byte stands for each.
  const bool are_counted = row == 0;
  const auto bytes = std::make_shared<std::vector<char>>(are_counted ? static_cast<size_t>(shape[0]) : 0);
  const auto arriving = std::make_shared<std::vector<char>>();
  if (are_counted) row = 1;
  Call call;
  call.kind = Call::Kind::kGather;
  call.input = are_counted ? bytes->data() : running->input();
  call.size = are_counted ? bytes->size() : running->size();
  call.gather = [running, shape, row, are_counted, bytes, arriving](const std::vector<size_t>& sizes) mutable -> char* {
    if (std::any_of(sizes.begin(), sizes.end(), [row](size_t size) { return size % row != 0; })) return nullptr;
    const size_t total = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
    shape[0] = static_cast<int64_t>(total / row);
    char* const output = running->allocate(0, shape, are_counted ? 0 : total);
    if (!output || !are_counted) return output;
    arriving->resize(total + 1);
    return arriving->data();
  };
  start(kernel, running, std::move(call));
}

// Says which number is not in [0, below), in the words of TensorFlow's own lookups; empty if all are.
template <typename T>
std::string outside(const char* data, size_t size, int64_t below) {
  const auto* numbers = reinterpret_cast<const T*>(data);
  for (size_t k = 0; k < size / sizeof(T); ++k) {
    if (numbers[k] < 0 || numbers[k] >= below) {
      return "indices[" + std::to_string(k) + "] = " + std::to_string(numbers[k]) + " is not in [0, " +
             std::to_string(below) + ")";
    }
  }
  return "";
}

std::string wrong_number(const Running& running, int64_t below) {
  if (below < 0) return "";
  switch (static_cast<DataType>(running.type())) {
    case DataType::kInt32:
      return outside<int32_t>(running.input(), running.size(), below);
    case DataType::kInt64:
      return outside<int64_t>(running.input(), running.size(), below);
    default:
      return "";
  }
}

// Whether the numbers that are to be sent are in their range; else the operation fails.
bool has_right_numbers(void* kernel, Running& running) {
  const std::string wrong = wrong_number(running, static_cast<Attributes*>(kernel)->below);
  if (!wrong.empty()) running.fail(wrong, kInvalidArgument);
  return wrong.empty();
}

void send(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  const auto running = std::make_shared<Running>(context, done);
  if (!running->is_ok() || !has_right_numbers(kernel, *running)) return;
  Starting starting(kernel, running);
  starting.send_all();
  starting.begin();
}

void receive(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  const auto running = std::make_shared<Running>(context, done);
  Starting starting(kernel, running);
  starting.receive_all(static_cast<Attributes*>(kernel)->key);
  starting.begin();
}

// Several may ask at the same time, in any order: each question and the receipt of its answer have the same round.
void ask(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  const auto running = std::make_shared<Running>(context, done);
  if (!running->is_ok() || !has_right_numbers(kernel, *running)) return;
  Starting starting(kernel, running);
  starting.send_all();
  starting.receive_all(static_cast<Attributes*>(kernel)->answer);
  starting.begin();
}

// One run of a step, from the start of its watch to its end.
struct Watch {
  const uint64_t key;
  std::atomic<bool> is_over{false};
};

std::unordered_map<uint64_t, std::shared_ptr<Watch>> watches;  // the last ones, by key; guarded by mutex

// The number that an operation of TensorFlow takes while it waits for the end of the step. If the step fails,
// TensorFlow cancels that operation and frees the number: so this library learns what nobody tells it.
struct Held {
  alignas(64) int32_t number;
  std::shared_ptr<Watch> watch;
};

constexpr int32_t kHeld = 3;  // elements that the operation waits for: see autodist/runtime/session/_step_watch.py

void release(void*, size_t, void* argument) {
  const std::unique_ptr<Held> held(static_cast<Held*>(argument));
  if (held->watch->is_over) return;
  // The lock is kept, so that this thread, which may be that of the connections, is not the one that closes them.
  const std::lock_guard<std::mutex> lock(mutex);
  if (connections) connections->abandon(held->watch->key);
}

void begin_watch(void* kernel, TF_OpKernelContext* context) {
  auto* held = new Held{kHeld, std::shared_ptr<Watch>(new Watch{static_cast<Attributes*>(kernel)->key})};
  {
    const std::lock_guard<std::mutex> lock(mutex);
    watches[held->watch->key] = held->watch;
  }
  TF_Tensor* number =
      tensorflow()->NewTensor(kInt32, nullptr, 0, &held->number, sizeof held->number, release, held);
  Status status;
  tensorflow()->SetOutput(context, 0, number, status.status);
  tensorflow()->DeleteTensor(number);
  if (!status.is_ok()) tensorflow()->OpKernelContext_Failure(context, status.status);
}

void end_watch(void* kernel, TF_OpKernelContext*) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = watches.find(static_cast<Attributes*>(kernel)->key);
  if (found != watches.end()) found->second->is_over = true;
}

void same_shape(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle* shape = tensorflow()->NewShapeHandle();
  tensorflow()->ShapeInferenceContextGetInput(context, 0, shape, status);
  if (tensorflow()->GetCode(status) == kOk) {
    tensorflow()->ShapeInferenceContextSetOutput(context, 0, shape, status);
  }
  tensorflow()->DeleteShapeHandle(shape);
}

void scalar(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle* shape = tensorflow()->ShapeInferenceContextScalar(context);
  tensorflow()->ShapeInferenceContextSetOutput(context, 0, shape, status);
  tensorflow()->DeleteShapeHandle(shape);
}

void unknown_shape(TF_ShapeInferenceContext* context, TF_Status* status) {
  tensorflow()->ShapeInferenceContextSetUnknownShape(context, status);
}

struct Definition {
  const char* name;
  const char* types;    // null where it has no tensors of any type
  const char* results;  // null where they are those of the input
  const char* input;    // null for none
  const char* output;   // null for none
  void (*infer)(TF_ShapeInferenceContext*, TF_Status*);
  void (*compute)(void*, TF_OpKernelContext*, TF_AsyncOpKernelDoneCallback*);  // null where it waits for nothing
  void (*compute_now)(void*, TF_OpKernelContext*);
};

constexpr Definition kDefinitions[] = {
    {"AutodistAllReduce", "T: {half, bfloat16, float, double, int32, int64}", nullptr, "tensor: T", "result: T",
     same_shape, all_reduce, nullptr},
    {"AutodistAllGather",
     "T: {half, bfloat16, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool, complex64, "
     "complex128}",
     nullptr, "tensor: T", "result: T", unknown_shape, all_gather, nullptr},
    {"AutodistSend", "T: list(type)", nullptr, "tensors: T", nullptr, unknown_shape, send, nullptr},
    {"AutodistReceive", "T: list(type)", nullptr, nullptr, "tensors: T", unknown_shape, receive, nullptr},
    {"AutodistAsk", "T: list(type)", "Tout: list(type)", "tensors: T", "results: Tout", unknown_shape, ask, nullptr},
    {"AutodistBeginWatch", nullptr, nullptr, nullptr, "held: int32", scalar, nullptr, begin_watch},
    {"AutodistEndWatch", nullptr, nullptr, nullptr, nullptr, unknown_shape, nullptr, end_watch},
};

bool add(const Definition& definition) {
  const TensorFlow* tf = tensorflow();
  Status status;
  TF_OpDefinitionBuilder* builder = tf->NewOpDefinitionBuilder(definition.name);
  if (definition.types) tf->OpDefinitionBuilderAddAttr(builder, definition.types);
  if (definition.results) tf->OpDefinitionBuilderAddAttr(builder, definition.results);
  tf->OpDefinitionBuilderAddAttr(builder, "collective: string");
  tf->OpDefinitionBuilderAddAttr(builder, "ranks: list(int) = []");
  tf->OpDefinitionBuilderAddAttr(builder, "priority: int = 0");
  tf->OpDefinitionBuilderAddAttr(builder, "below: int = -1");
  tf->OpDefinitionBuilderAddAttr(builder, "place: int = -1");
  tf->OpDefinitionBuilderAddAttr(builder, "watch: string = ''");
  if (definition.input) tf->OpDefinitionBuilderAddInput(builder, definition.input);
  if (definition.output) tf->OpDefinitionBuilderAddOutput(builder, definition.output);
  tf->OpDefinitionBuilderSetIsStateful(builder, true);
  tf->OpDefinitionBuilderSetShapeInferenceFunction(builder, definition.infer);
  tf->RegisterOpDefinition(builder, status.status);
  if (!status.is_ok()) return false;
  TF_KernelBuilder* kernel =
      definition.compute ? tf->NewAsyncKernelBuilder(definition.name, "CPU", create, definition.compute, destroy)
                         : tf->NewKernelBuilder(definition.name, "CPU", create, definition.compute_now, destroy);
  tf->RegisterKernelBuilder(definition.name, kernel, status.status);
  return status.is_ok();
}

bool add_all() {
  return tensorflow() && std::all_of(std::begin(kDefinitions), std::end(kDefinitions), add);
}

}  // namespace
}  // namespace autodist

extern "C" {

// Changes with every change of what Python asks of this library, in autodist/transport/_library.py as well.
__attribute__((visibility("default"))) int autodist_version() { return 3; }

// Makes the operations known to TensorFlow, which must be loaded. Whether that was possible.
__attribute__((visibility("default"))) int autodist_register() {
  static const bool is_done = autodist::add_all();
  return is_done;
}

// Takes connected sockets over, by rank, with -1 for the own one. What goes there is encrypted if there are keys. Null,
// or what went wrong, until the next call.
__attribute__((visibility("default"))) const char* autodist_connect(int rank, int count, const int* sockets,
                                                                    const double* shares, const bool* coding,
                                                                    const unsigned char* keys, double timeout_s) {
  static std::string wrong;
  std::shared_ptr<autodist::Transport> ended;  // destroyed last: what it ends may need the lock
  const std::lock_guard<std::mutex> lock(autodist::mutex);
  try {
    const std::vector<int> all(sockets, sockets + count);
    autodist::Channels channels = keys ? autodist::encrypted(rank, all, keys, timeout_s) : autodist::plain(all);
    ended = std::make_shared<autodist::Transport>(rank, std::move(channels), std::vector<double>(shares, shares + count),
                                                  std::vector<bool>(coding, coding + count));
    ended.swap(autodist::connections);
  } catch (const autodist::Lost& error) {
    wrong = error.what();
    return wrong.c_str();
  }
  return nullptr;
}

// Answers a question, of which the name and the number of tensors in an answer are given, by words that say why there
// are none. Whether they could be sent.
__attribute__((visibility("default"))) int autodist_refuse(const char* question, int tensors, int rank,
                                                           const char* words) {
  const std::shared_ptr<autodist::Transport> transport = autodist::connected();
  if (!transport) return 0;
  const auto said = std::make_shared<const std::string>(words);
  const auto is_sent = std::make_shared<std::promise<bool>>();
  const uint64_t key = autodist::hash(std::string(question) + autodist::kAnswer);
  std::vector<autodist::Call> calls(static_cast<size_t>(tensors));
  if (calls.empty()) return 1;  // nobody waits for anything
  for (size_t k = 0; k < calls.size(); ++k) {
    calls[k].kind = autodist::Call::Kind::kSend;
    calls[k].is_refusal = true;
    calls[k].key = key + k;
    calls[k].targets = {rank};
    calls[k].input = said->data();
    calls[k].size = said->size();
    const bool is_last = k + 1 == calls.size();
    calls[k].done = [said, is_sent, is_last](const std::string& error) {
      if (is_last) is_sent->set_value(error.empty());
    };
  }
  transport->start(std::move(calls));
  return is_sent->get_future().get();
}

// Fails the receipt of a question, of this many tensors, that nobody has asked yet.
__attribute__((visibility("default"))) void autodist_withdraw(const char* question, int tensors) {
  const std::shared_ptr<autodist::Transport> transport = autodist::connected();
  for (int k = 0; transport && k < tensors; ++k) {
    transport->withdraw(autodist::hash(question) + static_cast<uint64_t>(k));
  }
}

__attribute__((visibility("default"))) void autodist_disconnect() {
  std::shared_ptr<autodist::Transport> ended;
  const std::lock_guard<std::mutex> lock(autodist::mutex);
  ended.swap(autodist::connections);
}
}
