#pragma once

#include "events/records.hpp"
#include "spec/experiment/value_types.hpp"
#include "stage/stages.hpp"
#include "weights/tensor_names.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::train {

/// Returns the parameters, then the buffers.
std::vector<stage::NamedTensor> weights_of(const stage::Model& model);

/// Returns the safetensors name of a dtype: "F32", "I64". Throws Error(unexpected) for a dtype that
/// has none.
const char* dtype_name(at::ScalarType dtype);
/// Returns the dtype with this safetensors name. Throws Error(checkpoint) for a dtype that libtorch
/// cannot compute with.
at::ScalarType dtype_of(std::string_view name);

/// Returns a tensor on the host with a copy of the bytes, because a file guarantees no alignment
/// and may be closed.
at::Tensor tensor_from(std::string_view dtype, at::IntArrayRef shape,
                       std::span<const std::byte> bytes);

/// Returns the bytes of a contiguous tensor on the host.
std::span<const std::byte> bytes_of(const at::Tensor& host);

/// Returns the trainable parameters with their names.
std::vector<stage::NamedTensor> trained_parameters(const stage::Model& model);

/// Returns the bytes of a block for block_parts().
std::int64_t block_bytes(const std::vector<stage::NamedTensor>& tensors);

/// Returns contiguous tensors with the names, dtypes and shapes of `tensors` in one block of
/// memory, uint8 [block_bytes() or more]. Many small allocations would fill the gaps that freed
/// gradients leave in the heap, so that the next gradients would grow the heap.
std::vector<stage::NamedTensor> block_parts(const std::vector<stage::NamedTensor>& tensors,
                                            const at::Tensor& block);

/// A copy of the weights that is allocated once and then overwritten. All weights are on one
/// device.
class Snapshot {
 public:
  explicit Snapshot(std::vector<stage::NamedTensor> weights);
  /// Copies the current weights.
  void take();
  /// Copies the stored values back into the weights.
  void restore() const;
  [[nodiscard]] const std::vector<stage::NamedTensor>& tensors() const { return copies_; }

 private:
  std::vector<stage::NamedTensor> weights_;
  std::vector<stage::NamedTensor> copies_;
};

/// Returns the name of a tensor that contains NaN or infinity; empty if all are finite.
/// Synchronizes with the device once.
std::string not_finite(const std::vector<stage::NamedTensor>& weights);

/// Returns the tensors on the host; tensors that are already there are not copied.
std::vector<stage::NamedTensor> host_copies(const std::vector<stage::NamedTensor>& weights);

/// Writes a safetensors file. Throws Error(resource) if it cannot be written.
void save_weights(const std::filesystem::path& path, const std::vector<stage::NamedTensor>& weights,
                  const std::map<std::string, std::string>& metadata);

/// Returns the XXH3 hash of names and bytes as 16 hex digits, to compare ranks and runs.
std::string digest_weights(const std::vector<stage::NamedTensor>& weights);

/// Matches the offered tensors with those of the model. Sets `options.last_layer`. Throws like
/// weights::match().
weights::Match match_weights(const stage::Model& model, const std::vector<weights::Entry>& offered,
                             weights::MatchOptions options);

/// Copies the tensors of a safetensors file into the model in place, as match_weights() assigns
/// them, and describes the assignment in the last argument. Throws Error(checkpoint) if they do not
/// fit.
void load_weights(const stage::Model& model, const std::filesystem::path& file,
                  weights::MatchOptions options, events::WeightsSet& report);

/// Disables gradients for the parameters that match the patterns, so that no optimizer updates
/// them. Returns their names. Throws Error(config) for a pattern that matches none.
std::vector<std::string> freeze(const stage::Model& model,
                                const std::vector<std::string>& patterns);

/// Frozen parameters that are trained after some epochs.
struct UnfrozenLater {
  std::int64_t epoch = 0;
  std::vector<at::Tensor> parameters;
};
/// Returns the parameters of `freeze` that match the patterns of each stage, and enables their
/// gradients, so that optimizer and gradient exchange include them from the start. Throws
/// Error(config) for a pattern that matches none, a parameter that is not frozen, and if the first
/// epoch would train nothing.
std::vector<UnfrozenLater> unfreeze_later(const stage::Model& model,
                                          const std::vector<spec::Unfreeze>& stages);
/// Enables or disables the gradients of the parameters for an epoch, counted from 0.
void set_trained(const std::vector<UnfrozenLater>& stages, std::int64_t epoch);

}  // namespace trainctl::train
