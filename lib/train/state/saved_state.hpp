#pragma once

#include "checkpoint/container.hpp"
#include "checkpoint/parts.hpp"
#include "device/device.hpp"
#include "dist/grad_sync.hpp"
#include "stage/stages.hpp"
#include "train/state/weights.hpp"

#include <ATen/core/MT19937RNGEngine.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Stores the tensors of a run's state in the parts of a checkpoint, and reads them.

namespace trainctl::train {

/// A tensor of the state, which shares storage with its owner.
struct StateTensor {
  std::string name;  // "model/fc1.weight", "optimizer/fc1.weight.exp_avg"
  at::Tensor tensor;
  bool of_rank = false;   // it differs between ranks, and each rank saves its own
  bool of_owner = false;  // only one rank has it and saves it
};

/// The place of the host waits for state that moves from a checkpoint to a device.
inline constexpr std::string_view kRestoredPlace = "state of a checkpoint";

/// Copies a tensor of a checkpoint, which is on the host, into a tensor of the run.
void copy_restored(const at::Tensor& saved, const at::Tensor& into);

/// Returns the bytes that the tensors take in a checkpoint, including headers.
std::uint64_t stored_bytes(const std::vector<stage::NamedTensor>& tensors);

/// Returns the tensors in the part of this rank: on rank 0 all tensors, on other ranks only those
/// that differ or that the rank owns.
std::vector<stage::NamedTensor> saved_by(const std::vector<StateTensor>& state, int rank);

/// Returns entries that point into tensors on the host.
std::vector<container::Entry> container_entries(const std::vector<stage::NamedTensor>& hosts);

/// Returns why a state must not be saved: a weight is not finite, or more than `may_skip` steps in
/// a row were skipped. Empty if it may be saved. It needs no tensors, so the thread that writes the
/// state can call it.
std::string obstacle_to_save(const std::vector<container::Entry>& entries, std::int64_t may_skip);

/// Copies of tensors on the host, in memory that later copies reuse. A GPU copies to page-locked
/// memory in the background.
class HostCopies {
 public:
  /// `copied` is null if all tensors are on the host.
  HostCopies(at::Device device, std::unique_ptr<device::Event> copied)
      : device_(device), copied_(std::move(copied)) {}
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;
  ~HostCopies();

  /// Starts to copy the tensors as they are after the work launched so far. The last copies must be
  /// complete and no longer in use.
  void take(const std::vector<stage::NamedTensor>& tensors);
  /// Returns whether the copies of the last take() are complete. Any thread may call it.
  [[nodiscard]] bool complete() const { return !copied_ || copied_->is_done(); }
  /// Returns the entries of the last take(). They point into the copies.
  [[nodiscard]] std::vector<container::Entry> entries() const { return container_entries(copies_); }
  /// Whether the copies are complete only some time after take().
  [[nodiscard]] bool is_late() const { return copied_ != nullptr; }
  /// Returns the memory of the copies after take(): whole pages.
  [[nodiscard]] std::span<const std::byte> memory() const { return bytes_of(memory_); }

 private:
  void lay_out(const std::vector<stage::NamedTensor>& tensors);

  at::Device device_;
  std::unique_ptr<device::Event> copied_;
  at::Tensor memory_;                       // uint8
  std::vector<stage::NamedTensor> copies_;  // in `memory_`
  std::unique_ptr<device::PageLock> lock_;  // of `memory_`
};

/// The checkpoint that a rank resumes from, read and verified.
class SavedState {
 public:
  /// `place` is that of the reading rank. Throws Error(checkpoint) naming the file and the problem.
  SavedState(const std::filesystem::path& checkpoint, dist::RankInfo place);

  [[nodiscard]] const checkpoint::Manifest& manifest() const { return manifest_; }
  /// Returns whether the checkpoint was written with the same world size.
  [[nodiscard]] bool same_world() const { return same_world_; }
  /// Returns the plain values of this rank; with another world size, those of rank 0.
  [[nodiscard]] const Json& values() const { return values_of(own_); }
  /// Copies values into the tensors in place, also from the parts of ranks that owned them. With
  /// another world size, tensors that differ between ranks get rank 0's values. A part may hold
  /// names with a prefix in `of_others` that the run does not have. Throws Error(checkpoint) naming
  /// a tensor that is missing, unknown, or of another shape or dtype.
  void copy_into(const std::vector<StateTensor>& state,
                 const std::vector<std::string>& of_others = {}) const;
  /// Returns host copies of the tensors with this prefix, under their names without the prefix.
  [[nodiscard]] std::vector<stage::NamedTensor> tensors(std::string_view prefix) const {
    return tensors_of(own_, prefix);
  }

  /// Returns, on rank 0 after a change of the world size, the number of parts that ranks 1, 2, ...
  /// wrote.
  [[nodiscard]] std::size_t others() const { return parts_.size() - 1; }
  [[nodiscard]] const Json& values_of(std::size_t part) const;
  [[nodiscard]] std::vector<stage::NamedTensor> tensors_of(std::size_t part,
                                                           std::string_view prefix) const;

 private:
  void check_names(const std::vector<StateTensor>& state,
                   const std::vector<std::string>& of_others) const;
  void look_into_others(std::vector<const StateTensor*> missing) const;

  std::filesystem::path folder_;
  checkpoint::Manifest manifest_;
  bool same_world_;
  std::vector<checkpoint::PartReader> parts_;  // rank 0's first
  std::size_t own_ = 0;
  int own_rank_ = 0;  // the rank that wrote the own part
};

/// Returns the states of the default generators: "cpu" and, on a GPU, "cuda" for that device. They
/// are uint8 copies on the host; setting them makes dropout and other draws repeat.
std::vector<stage::NamedTensor> random_states(at::Device device);

/// Sets the generators. Throws Error(checkpoint) if a state is missing, unexpected or invalid.
void set_random_states(at::Device device, const std::vector<stage::NamedTensor>& states);

/// Remembers the generators' states from before a batch. `take` is cheap enough for every batch: it
/// copies 2.5 KB on a CPU or two numbers on a GPU, and allocates nothing.
class RngSnapshot {
 public:
  explicit RngSnapshot(at::Device device);

  /// Remembers the current states.
  void take();
  /// Returns what random_states() would have returned at that time. Does not change the generators.
  [[nodiscard]] std::vector<stage::NamedTensor> states() const;

 private:
  at::Device device_;
  at::mt19937 engine_;
  std::optional<float> next_float_;
  std::optional<double> next_double_;
  std::uint64_t seed_ = 0;  // of a GPU's generator
  std::uint64_t offset_ = 0;
};

}  // namespace trainctl::train
