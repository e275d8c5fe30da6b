#pragma once

#include "events/records.hpp"
#include "stage/stages.hpp"
#include "weights/tensor_names.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::train {

/// Parameters, then buffers: what a trained model is.
std::vector<stage::NamedTensor> weights_of(const stage::Model& model);

/// The words of safetensors: "F32", "I64". Throws Error(unexpected) for a type that it has none
/// for.
const char* dtype_name(at::ScalarType dtype);
/// The type of that name. Throws Error(checkpoint) for one that libtorch does not compute with.
at::ScalarType dtype_of(std::string_view name);

/// Returns a copy on the host of bytes that are such a tensor: a file promises no alignment, and
/// goes away.
at::Tensor tensor_from(std::string_view dtype, at::IntArrayRef shape,
                       std::span<const std::byte> bytes);

/// The bytes of a contiguous tensor on the host.
std::span<const std::byte> bytes_of(const at::Tensor& host);

/// The parameters that are trained, with their names.
std::vector<stage::NamedTensor> trained_parameters(const stage::Model& model);

/// Contiguous tensors of the names, types and shapes of `tensors`, side by side in one block of
/// memory of `device`. One block, because many small ones fill the gaps that freed gradients leave
/// in the heap, and the next gradients make it grow by their own size.
std::vector<stage::NamedTensor> empty_block(const std::vector<stage::NamedTensor>& tensors,
                                            at::Device device);

/// A copy that is made once and then overwritten in place. All weights are on one device.
class Snapshot {
 public:
  explicit Snapshot(std::vector<stage::NamedTensor> weights);
  void take();
  void restore() const;
  [[nodiscard]] const std::vector<stage::NamedTensor>& tensors() const { return copies_; }

 private:
  std::vector<stage::NamedTensor> weights_;
  std::vector<stage::NamedTensor> copies_;
};

/// The name of a tensor that holds NaN or infinity; empty where there is none. Waits for the device
/// once.
std::string not_finite(const std::vector<stage::NamedTensor>& weights);

/// The same in the memory of the host; those that are there already are not copied.
std::vector<stage::NamedTensor> host_copies(const std::vector<stage::NamedTensor>& weights);

/// A safetensors file. Throws Error(resource) where it cannot be written.
void save_weights(const std::filesystem::path& path, const std::vector<stage::NamedTensor>& weights,
                  const std::map<std::string, std::string>& metadata);

/// XXH3 of names and bytes, 16 hex digits: to compare ranks and runs.
std::string digest_weights(const std::vector<stage::NamedTensor>& weights);

/// Which of the offered tensors goes where; `options.last_layer` is found here. Throws as
/// weights::match().
weights::Match match_weights(const stage::Model& model, const std::vector<weights::Entry>& offered,
                             weights::MatchOptions options);

/// Copies the tensors of a safetensors file into the model's, in place and on its device; what is
/// copied where match_weights() says, and `told` gets it. Throws
/// Error(checkpoint) where they do not fit.
void load_weights(const stage::Model& model, const std::filesystem::path& file,
                  weights::MatchOptions options, events::WeightsSet& told);

/// The parameters that the patterns name get no gradient from here on, so that no optimizer sees
/// them. Returns their names. Throws Error(config) for a pattern that names none.
std::vector<std::string> freeze(const stage::Model& model,
                                const std::vector<std::string>& patterns);

}  // namespace trainctl::train
