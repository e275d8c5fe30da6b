#include "train/state/saved_state.hpp"

#include "base/error.hpp"
#include "base/machine/host_waits.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "checkpoint/store.hpp"
#include "checkpoint/verify.hpp"
#include "device/event.hpp"
#include "train/debug/tensor_stats.hpp"
#include "train/step/gradients.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

namespace trainctl::train {
namespace {

/// The key of the archive in the metadata of a part.
constexpr const char* kValues = "training";
/// The generator states are set through libtorch, not copied into tensors.
constexpr std::string_view kRandom = "rng/";

at::Tensor tensor_of(const container::Entry& entry) {
  return tensor_from(entry.dtype, entry.shape, entry.bytes);
}

bool alike(const stage::NamedTensor& a, const stage::NamedTensor& b) {
  return a.name == b.name && a.tensor.scalar_type() == b.tensor.scalar_type() &&
         a.tensor.sizes() == b.tensor.sizes();
}

/// Returns uninitialized memory, uint8 [bytes or more], that shares no page with other objects: a
/// page is locked as a whole.
at::Tensor whole_pages(std::int64_t bytes) {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const at::Tensor all = at::empty({bytes + 2 * page}, at::kByte);
  const auto begin = reinterpret_cast<std::intptr_t>(all.const_data_ptr());
  return all.narrow(0, (page - begin % page) % page, (bytes + page - 1) / page * page);
}

std::string shape_text(std::string_view dtype, at::IntArrayRef shape) {
  return fmt::format("{} [{}]", dtype, fmt::join(shape, ", "));
}

void copy(const container::Entry& entry, const StateTensor& into) {
  const char* dtype = dtype_name(into.tensor.scalar_type());
  ENSURE(checkpoint, entry.dtype == dtype && into.tensor.sizes() == at::IntArrayRef(entry.shape),
         "'{}' is {} in the checkpoint and {} in this run", into.name,
         shape_text(entry.dtype, entry.shape), shape_text(dtype, into.tensor.sizes()));
  copy_restored(tensor_of(entry), into.tensor);
}

}  // namespace

void copy_restored(const at::Tensor& saved, const at::Tensor& into) {
  if (!into.is_cpu()) count_host_wait(kRestoredPlace);
  into.copy_(saved);
}

std::uint64_t stored_bytes(const std::vector<stage::NamedTensor>& tensors) {
  constexpr std::uint64_t kOfHeader = 200;  // a tensor's header entry and its padding
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes() + kOfHeader;
  return bytes;
}

std::vector<stage::NamedTensor> saved_by(const std::vector<StateTensor>& state, int rank) {
  std::vector<stage::NamedTensor> saved;
  for (const StateTensor& one : state) {
    if (rank == 0 || one.of_rank || one.of_owner) saved.push_back({one.name, one.tensor});
  }
  return saved;
}

std::string obstacle_to_save(const std::vector<container::Entry>& entries, std::int64_t may_skip) {
  constexpr std::string_view kModel = "model/";
  for (const container::Entry& entry : entries) {
    if (entry.name.starts_with(kModel) && !all_finite(entry.bytes, entry.dtype))
      return fmt::format("'{}' contains values that are not finite",
                         entry.name.substr(kModel.size()));
    if (entry.name != "scaler/skipped") continue;
    const auto skipped = static_cast<std::int64_t>(
        reinterpret_cast<const float*>(entry.bytes.data())[GradScaler::kLongestSeries]);
    if (skipped > may_skip)
      return fmt::format("the gradients of {} step{} in a row were not finite", skipped,
                         plural(skipped));
  }
  return {};
}

void HostCopies::lay_out(const std::vector<stage::NamedTensor>& tensors) {
  const std::int64_t bytes = block_bytes(tensors);
  copies_.clear();
  if (!memory_.defined() || bytes > memory_.numel()) {
    lock_.reset();
    memory_ = at::Tensor();  // freed before the new memory is allocated
    memory_ = whole_pages(bytes);
    lock_ = device::lock_pages(device_, memory());
  }
  copies_ = block_parts(tensors, memory_);
}

/// The copies run on the stream of the steps, between two steps. On another stream, the next step
/// would have to wait for them as well: its forward pass already changes buffers and sums, and a
/// step that a CUDA graph replays is a single launch.
void HostCopies::take(const std::vector<stage::NamedTensor>& tensors) {
  const at::NoGradGuard guard;
  if (!std::ranges::equal(copies_, tensors, alike)) lay_out(tensors);
  if (copied_ && !lock_) count_host_wait("copy of a checkpoint to pageable memory");
  for (std::size_t i = 0; i < tensors.size(); ++i)
    copies_[i].tensor.copy_(tensors[i].tensor.detach(), /*non_blocking=*/true);
  if (copied_) copied_->record();
}

HostCopies::~HostCopies() {
  if (!copied_ || device::wait_in_destructor(*copied_)) return;
  (void)lock_.release();  // the device may still write to the memory until the process ends
  (void)new std::vector<stage::NamedTensor>(std::move(copies_));
}

std::vector<container::Entry> container_entries(const std::vector<stage::NamedTensor>& hosts) {
  std::vector<container::Entry> entries;
  for (const auto& [name, host] : hosts)
    entries.push_back({name, dtype_name(host.scalar_type()), host.sizes().vec(), bytes_of(host)});
  return entries;
}

SavedState::SavedState(const std::filesystem::path& checkpoint, dist::RankInfo place)
    : folder_(checkpoint),
      manifest_(checkpoint::read_manifest(checkpoint)),
      same_world_(manifest_.world_size == place.world_size) {
  parts_.emplace_back(folder_, manifest_, 0);
  if (same_world_ && place.rank > 0) {
    parts_.emplace_back(folder_, manifest_, place.rank);
    own_ = 1;
    own_rank_ = place.rank;
  } else if (!same_world_ && place.rank == 0) {
    for (int rank = 1; rank < manifest_.world_size; ++rank)
      parts_.emplace_back(folder_, manifest_, rank);
  }
}

const Json& SavedState::values_of(std::size_t part) const {
  const Json& meta = parts_[part].meta();
  const auto found = meta.is_object() ? meta.find(kValues) : meta.end();
  ENSURE(checkpoint, found != meta.end(),
         "the checkpoint {} is damaged: one of its .part files does not contain the training state",
         printable(folder_.string()));
  return *found;
}

std::vector<stage::NamedTensor> SavedState::tensors_of(std::size_t part,
                                                       std::string_view prefix) const {
  std::vector<stage::NamedTensor> found;
  for (const container::Entry& entry : parts_[part].entries()) {
    if (entry.name.starts_with(prefix))
      found.push_back({entry.name.substr(prefix.size()), tensor_of(entry)});
  }
  return found;
}

void SavedState::check_names(const std::vector<StateTensor>& state,
                             const std::vector<std::string>& of_others) const {
  std::set<std::string_view> known;
  for (const StateTensor& one : state) known.insert(one.name);
  const auto is_of_others = [&](const std::string& name) {
    return std::ranges::any_of(of_others,
                               [&](const std::string& begin) { return name.starts_with(begin); });
  };
  for (const std::size_t part : {std::size_t{0}, own_}) {
    for (const container::Entry& entry : parts_[part].entries()) {
      ENSURE(
          checkpoint,
          known.contains(entry.name) || entry.name.starts_with(kRandom) || is_of_others(entry.name),
          "'{}' is in the checkpoint, but not in this run", printable(entry.name));
    }
  }
}

/// Keeps one further part in memory at a time. If all N ranks own a share, each reads N parts.
void SavedState::look_into_others(std::vector<const StateTensor*> missing) const {
  const auto take_from = [&](const checkpoint::PartReader& file) {
    std::erase_if(missing, [&](const StateTensor* one) {
      const container::Entry* entry = file.find(one->name);
      if (entry != nullptr) copy(*entry, *one);
      return entry != nullptr;
    });
  };
  for (std::size_t part = 1; part < parts_.size(); ++part) take_from(parts_[part]);
  const bool has_all = parts_.size() == static_cast<std::size_t>(manifest_.world_size);
  for (int rank = 1; rank < manifest_.world_size && !has_all && !missing.empty(); ++rank) {
    if (rank != own_rank_) take_from({folder_, manifest_, rank});
  }
  ENSURE(checkpoint, missing.empty(), "'{}' of this run is missing in the checkpoint",
         missing.front()->name);
}

void SavedState::copy_into(const std::vector<StateTensor>& state,
                           const std::vector<std::string>& of_others) const {
  in_context(printable(folder_.string()), [&] {
    const at::NoGradGuard guard;
    check_names(state, of_others);
    std::vector<const StateTensor*> missing;
    for (const StateTensor& one : state) {
      const container::Entry* entry = parts_[one.of_rank ? own_ : 0].find(one.name);
      ENSURE(checkpoint, entry != nullptr || !one.of_rank,
             "'{}' of this run is missing in the checkpoint", one.name);
      if (entry != nullptr) {
        copy(*entry, one);
      } else {
        missing.push_back(&one);
      }
    }
    if (!missing.empty()) look_into_others(std::move(missing));
  });
}

namespace {

struct Source {
  std::string name;
  at::Device device;
};

std::vector<Source> sources(at::Device device) {
  std::vector<Source> all{{"cpu", at::kCPU}};
  if (!device.is_cpu())
    all.push_back({at::DeviceTypeName(device.type(), /*lower_case=*/true), device});
  return all;
}

/// Calls `use` with the device's default generator, locked.
template <class Use>
auto with_generator(at::Device device, const Use& use) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return use(generator);
}

}  // namespace

std::vector<stage::NamedTensor> random_states(at::Device device) {
  std::vector<stage::NamedTensor> states;
  for (const Source& source : sources(device)) {
    states.push_back({source.name, with_generator(source.device, [](at::Generator& generator) {
                        return generator.get_state();
                      })});
  }
  return states;
}

void set_random_states(at::Device device, const std::vector<stage::NamedTensor>& states) {
  const std::vector<Source> wanted = sources(device);
  ENSURE(checkpoint, states.size() == wanted.size(),
         "the states of {} random number generators were saved, but this run needs {}",
         states.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& [name, state] = states[i];
    ENSURE(checkpoint, name == wanted[i].name,
           "the random number states are from '{}', but this run needs those of '{}'", name,
           wanted[i].name);
    try {
      with_generator(wanted[i].device,
                     [&](at::Generator& generator) { generator.set_state(state.contiguous()); });
    } catch (const c10::Error& error) {
      throw Error(ErrorKind::checkpoint,
                  fmt::format("the random number state of '{}' is not valid: {}", name,
                              error.what_without_backtrace()));
    }
  }
}

RngSnapshot::RngSnapshot(at::Device device) : device_(device) { take(); }

void RngSnapshot::take() {
  with_generator(at::kCPU, [this](at::Generator& generator) {
    auto* cpu = generator.get<at::CPUGeneratorImpl>();
    engine_ = cpu->engine();
    next_float_ = cpu->next_float_normal_sample();
    next_double_ = cpu->next_double_normal_sample();
  });
  if (device_.is_cpu()) return;
  with_generator(device_, [this](at::Generator& generator) {
    seed_ = generator.current_seed();
    offset_ = generator.get_offset();
  });
}

std::vector<stage::NamedTensor> RngSnapshot::states() const {
  const std::vector<stage::NamedTensor> now = random_states(device_);
  with_generator(at::kCPU, [this](at::Generator& generator) {
    auto* cpu = generator.get<at::CPUGeneratorImpl>();
    cpu->set_engine(engine_);
    cpu->set_next_float_normal_sample(next_float_);
    cpu->set_next_double_normal_sample(next_double_);
  });
  if (!device_.is_cpu()) {
    with_generator(device_, [this](at::Generator& generator) {
      generator.set_current_seed(seed_);
      generator.set_offset(offset_);
    });
  }
  std::vector<stage::NamedTensor> then = random_states(device_);
  set_random_states(device_, now);
  return then;
}

}  // namespace trainctl::train
