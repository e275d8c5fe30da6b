#include "support/recorded_graph.hpp"

#include "base/error.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/library.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

using c10::IValue;
using torch::jit::Stack;

namespace {

/// A key between autograd and the devices for which libtorch has no kernels. It is active while a
/// thread records.
constexpr c10::DispatchKey kRecords = c10::DispatchKey::Fake;

/// One operator with its arguments and results, whose tensors are aliases that keep their shape.
struct Call {
  c10::OperatorHandle op;
  std::vector<IValue> arguments, results;
};

/// Memory that existed before the recording, and its bytes.
struct Kept {
  c10::Storage storage;
  std::vector<std::byte> bytes;
};

/// A collective that a capture does not run.
class RecordedWork final : public c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
};

/// Returns the value with other tensor objects for the same memory.
IValue alias_of(const IValue& value) {
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return value;
    TORCH_CHECK(value.toTensor().has_storage(), "only dense tensors can be recorded");
    return value.toTensor().variable_data();
  }
  if (!value.isList()) return value;
  c10::List<IValue> aliases(value.toList().elementType());
  for (const IValue& one : value.toListRef()) aliases.push_back(alias_of(one));
  return aliases;
}

template <class Use>
void for_each_tensor(const IValue& value, const Use& use) {
  if (value.isTensor() && value.toTensor().defined()) use(value.toTensor());
  if (!value.isList()) return;
  for (const IValue& one : value.toListRef()) for_each_tensor(one, use);
}

bool allocates(const c10::OperatorHandle& op) {
  const std::string_view name = op.schema().name();
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

/// Whether the operator returns a value or a shape to the host that depends on values.
bool reads(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
}

/// Writes the result of a repeated operator where the recorded one was, and waits for a collective.
void settle(const IValue& found, const IValue& recorded) {
  if (found.isTensor()) {
    const at::Tensor& values = found.toTensor();
    if (!values.defined() || values.numel() == 0) return;
    if (!values.is_alias_of(recorded.toTensor())) recorded.toTensor().copy_(values);
  } else if (found.isList()) {
    for (std::size_t i = 0; i < found.toListRef().size(); ++i)
      settle(found.toListRef()[i], recorded.toListRef()[i]);
  } else if (found.isCustomClass()) {
    found.toCustomClass<c10d::Work>()->wait();
  }
}

void repeat(const Call& call) {
  if (allocates(call.op)) return;
  Stack stack;
  for (const IValue& argument : call.arguments) stack.push_back(alias_of(argument));
  call.op.callBoxed(stack);
  for (std::size_t i = 0; i < call.results.size(); ++i) settle(stack[i], call.results[i]);
}

/// Replaces the arguments of a collective by its results: its tensors as they are, and the work.
void skip_collective(const c10::FunctionSchema& schema, Stack& stack) {
  const IValue tensors = torch::jit::last(stack, schema.arguments().size()).front();
  torch::jit::drop(stack, schema.arguments().size());
  if (schema.returns().size() > 1) stack.push_back(tensors);
  stack.emplace_back(c10::intrusive_ptr<c10d::Work>(c10::make_intrusive<RecordedWork>()));
}

at::Tensor random_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

struct GraphRecording {
  void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack& stack) {
    TORCH_CHECK(allows_reads || !reads(op),
                "operation not permitted when stream is capturing: ", op.schema().name());
    Call call{op, {}, {}};
    for (const IValue& argument : torch::jit::last(stack, op.schema().arguments().size())) {
      call.arguments.push_back(alias_of(argument));
      for_each_tensor(argument, [&](const at::Tensor& tensor) { keep(tensor); });
    }
    if (op.schema().name().starts_with("c10d::")) {
      skip_collective(op.schema(), stack);
    } else {
      op.redispatchBoxed(keys, &stack);
    }
    for (const IValue& result : torch::jit::last(stack, op.schema().returns().size())) {
      call.results.push_back(alias_of(result));
      for_each_tensor(result, [&](const at::Tensor& tensor) { add_made(tensor); });
    }
    calls.push_back(std::move(call));
  }

  /// Restores the memory that existed before, and overwrites the new memory.
  void undo() {
    for (const auto& [address, kept] : found) {
      if (!kept.bytes.empty())
        std::memcpy(kept.storage.mutable_data(), kept.bytes.data(), kept.bytes.size());
    }
    for (const auto& [address, tensor] : made) {
      constexpr int kNan = 0xff;
      const c10::Storage& storage = tensor.storage();
      if (storage.nbytes() > 0)
        std::memset(storage.mutable_data(), tensor.is_floating_point() ? kNan : 0,
                    storage.nbytes());
    }
  }

  void keep(const at::Tensor& tensor) {
    const c10::Storage& storage = tensor.storage();
    if (made.contains(storage.unsafeGetStorageImpl())) return;
    const auto [place, is_new] = found.try_emplace(storage.unsafeGetStorageImpl());
    if (!is_new) return;
    const auto* first = static_cast<const std::byte*>(storage.data());
    place->second = {storage, {first, first + storage.nbytes()}};
  }

  void add_made(const at::Tensor& tensor) {
    const auto* address = tensor.storage().unsafeGetStorageImpl();
    if (!found.contains(address)) made.try_emplace(address, tensor);
  }

  bool allows_reads = false;
  std::vector<Call> calls;
  std::map<const c10::StorageImpl*, Kept> found;
  std::map<const c10::StorageImpl*, at::Tensor> made;
};

namespace {

thread_local GraphRecording* current = nullptr;  // the one of this thread

void record_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  TORCH_CHECK(current != nullptr, "an operator of a recorded step runs on another thread");
  const c10::impl::ExcludeDispatchKeyGuard inner_operators(kRecords);
  current->run(op, keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecords), *stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, Fake, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&record_call>());
}

RecordedGraph::RecordedGraph(Counts& counts, Reads reads) : counts_(counts), reads_(reads) {}
RecordedGraph::~RecordedGraph() = default;

void RecordedGraph::warm_up(const Work& work) {
  ++counts_.warm_ups;
  work();
}

std::size_t RecordedGraph::record(const Work& work) {
  const bool fails = counts_.records++ == counts_.fails_at;
  auto recording = std::make_unique<GraphRecording>();
  recording->allows_reads = reads_ == Reads::allowed;
  const at::Tensor draws = random_state();
  std::exception_ptr failure;
  current = recording.get();
  try {
    const c10::impl::IncludeDispatchKeyGuard records(kRecords);
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  current = nullptr;
  recording->undo();
  set_random_state(draws);
  if (failure) std::rethrow_exception(failure);
  if (fails) throw trainctl::Error(trainctl::ErrorKind::resource, "operation not permitted");
  graphs_.push_back(std::move(recording));
  return graphs_.size() - 1;
}

void RecordedGraph::replay(std::size_t graph) {
  ++counts_.replays;
  const at::NoGradGuard no_gradients;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (const Call& call : graphs_.at(graph)->calls) repeat(call);
}
