#pragma once

#include "checkpoint/container.hpp"
#include "checkpoint/parts.hpp"
#include "dist/grad_sync.hpp"
#include "stage/stages.hpp"

#include <ATen/core/MT19937RNGEngine.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The tensors of a run's state on their way into the parts of a checkpoint and back.

namespace trainctl::train {

/// A tensor of the state, live.
struct StateTensor {
  std::string name;  // "model/fc1.weight", "optimizer/fc1.weight.exp_avg"
  at::Tensor tensor;
  bool of_rank = false;   // the ranks differ in it: each saves its own
  bool of_owner = false;  // one rank alone has it, and saves it
};

/// What the tensors take in a checkpoint, with their headers.
std::uint64_t stored_bytes(const std::vector<stage::NamedTensor>& tensors);

/// Those that the part of this rank holds: rank 0's all that it has, another one's only its own.
std::vector<stage::NamedTensor> saved_by(const std::vector<StateTensor>& state, int rank);

/// Entries that point into tensors on the host.
std::vector<container::Entry> container_entries(const std::vector<stage::NamedTensor>& hosts);

/// Copies on the host, in memory that is used again by the next ones.
class HostCopies {
 public:
  /// Waits for the device.
  void take(const std::vector<stage::NamedTensor>& tensors);
  /// Of what was taken last; they point into the copies.
  [[nodiscard]] std::vector<container::Entry> entries() const { return container_entries(copies_); }

 private:
  std::vector<stage::NamedTensor> copies_;
};

/// The checkpoint that a rank goes on from, read and found sound.
class SavedState {
 public:
  /// `place`: of the rank that reads. Throws Error(checkpoint) naming the file and what is wrong
  /// with it.
  SavedState(const std::filesystem::path& checkpoint, dist::Place place);

  [[nodiscard]] const checkpoint::Manifest& manifest() const { return manifest_; }
  /// As many ranks have written it as read it.
  [[nodiscard]] bool same_world() const { return same_world_; }
  /// The plain values of this rank; with another number of ranks those of rank 0.
  [[nodiscard]] const Json& values() const { return values_of(own_); }
  /// Copies into the tensors, in place, also from parts of ranks that owned them; with another
  /// number of ranks what the ranks differ in is rank 0's. A part may hold names that begin
  /// as one of `of_others` and that the run does not have. Throws Error(checkpoint) naming a tensor
  /// that is missing, unknown, or of another shape or type.
  void copy_into(const std::vector<StateTensor>& state,
                 const std::vector<std::string>& of_others = {}) const;
  /// The tensors whose name begins so, without that beginning: copies on the host.
  [[nodiscard]] std::vector<stage::NamedTensor> tensors(std::string_view prefix) const {
    return tensors_of(own_, prefix);
  }

  /// With another number of ranks: what ranks 1, 2, ... have written, on a rank 0.
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
  int own_rank_ = 0;  // whose part that is
};

/// The states of the generators that draw by default: "cpu" and, on a GPU, "cuda" of that device.
/// Copies, uint8 on the host: dropout and the like go on alike once they are set.
std::vector<stage::NamedTensor> random_states(at::Device device);

/// Throws Error(checkpoint) where one is missing, another one is there, or it is no state of that
/// generator.
void set_random_states(at::Device device, const std::vector<stage::NamedTensor>& states);

/// Where the generators of random_states() stood before a batch. `take` is for every batch: on a
/// CPU a copy of 2.5 KB, on a GPU of two numbers, and nothing is allocated.
class KeptRandom {
 public:
  explicit KeptRandom(at::Device device);

  void take();
  /// What random_states() would have told then. The generators go on where they are now.
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
