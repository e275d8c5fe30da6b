#include "train/state/weights.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/safetensors.hpp"
#include "base/strings.hpp"
#include "data/formats/mapped_file.hpp"
#include "device/host_read.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace trainctl::train {
namespace {

at::Tensor on_host(const at::Tensor& tensor) {
  return device::copy_to_host(tensor.detach(), "weights for a file or a digest").contiguous();
}

struct DtypeName {
  at::ScalarType dtype;
  const char* name;
};

constexpr std::array<DtypeName, 10> kDtypes{{{at::kFloat, "F32"},
                                             {at::kDouble, "F64"},
                                             {at::kHalf, "F16"},
                                             {at::kBFloat16, "BF16"},
                                             {at::kLong, "I64"},
                                             {at::kInt, "I32"},
                                             {at::kShort, "I16"},
                                             {at::kChar, "I8"},
                                             {at::kByte, "U8"},
                                             {at::kBool, "BOOL"}}};

}  // namespace

const char* dtype_name(at::ScalarType dtype) {
  const auto* found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                   [&](const auto& row) { return row.dtype == dtype; });
  ENSURE(unexpected, found != kDtypes.end(), "weights of type {} cannot be saved",
         at::toString(dtype));
  return found->name;
}

at::ScalarType dtype_of(std::string_view name) {
  const auto* found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                   [&](const auto& row) { return row.name == name; });
  ENSURE(checkpoint, found != kDtypes.end(), "weights of type {} cannot be loaded", name);
  return found->dtype;
}

at::Tensor tensor_from(std::string_view dtype, at::IntArrayRef shape,
                       std::span<const std::byte> bytes) {
  at::Tensor tensor = at::empty(shape, dtype_of(dtype));
  ASSERT(tensor.nbytes() == bytes.size());
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::span<const std::byte> bytes_of(const at::Tensor& host) {
  return {static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()};
}

std::vector<stage::NamedTensor> trained_parameters(const stage::Model& model) {
  std::vector<stage::NamedTensor> trained = model.parameters();
  std::erase_if(trained, [](const auto& each) { return !each.tensor.requires_grad(); });
  return trained;
}

std::vector<stage::NamedTensor> weights_of(const stage::Model& model) {
  std::vector<stage::NamedTensor> all = model.parameters();
  for (stage::NamedTensor& buffer : model.buffers()) all.push_back(std::move(buffer));
  return all;
}

namespace {

/// Returns the bytes of the tensor with its padding.
std::int64_t room(const at::Tensor& tensor) {
  constexpr std::int64_t kAlignment = 64;  // bytes, the alignment of libtorch's allocations
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::int64_t block_bytes(const std::vector<stage::NamedTensor>& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += room(tensor);
  return bytes;
}

std::vector<stage::NamedTensor> block_parts(const std::vector<stage::NamedTensor>& tensors,
                                            const at::Tensor& block) {
  std::vector<stage::NamedTensor> parts;
  std::int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor bytes = block.narrow(0, offset, static_cast<std::int64_t>(tensor.nbytes()));
    parts.push_back({name, bytes.view(tensor.scalar_type()).view(tensor.sizes())});
    offset += room(tensor);
  }
  return parts;
}

Snapshot::Snapshot(std::vector<stage::NamedTensor> weights) : weights_(std::move(weights)) {
  if (weights_.empty()) return;
  const auto on_device = at::TensorOptions(at::kByte).device(weights_.front().tensor.device());
  copies_ = block_parts(weights_, at::empty({block_bytes(weights_)}, on_device));
}

void Snapshot::take() {
  const at::NoGradGuard guard;
  for (std::size_t i = 0; i < weights_.size(); ++i) copies_[i].tensor.copy_(weights_[i].tensor);
}

void Snapshot::restore() const {
  const at::NoGradGuard guard;
  for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i].tensor.copy_(copies_[i].tensor);
}

std::string not_finite(const std::vector<stage::NamedTensor>& weights) {
  const at::NoGradGuard guard;
  std::vector<std::string> names;
  std::vector<at::Tensor> largest;  // NaN if a value of the tensor is NaN
  for (const auto& [name, tensor] : weights) {
    if (!tensor.is_floating_point() || tensor.numel() == 0) continue;
    names.push_back(name);
    largest.push_back(
        at::linalg_vector_norm(tensor, std::numeric_limits<double>::infinity()).to(at::kDouble));
  }
  if (largest.empty()) return {};
  const at::Tensor values = device::copy_to_host(at::stack(largest), "check of the weights");
  const std::span<const double> read(values.const_data_ptr<double>(), largest.size());
  const auto bad =
      std::find_if_not(read.begin(), read.end(), [](double value) { return std::isfinite(value); });
  return bad == read.end() ? std::string() : names[static_cast<std::size_t>(bad - read.begin())];
}

std::vector<stage::NamedTensor> host_copies(const std::vector<stage::NamedTensor>& weights) {
  std::vector<stage::NamedTensor> copies;
  for (const auto& [name, tensor] : weights) copies.push_back({name, on_host(tensor)});
  return copies;
}

void save_weights(const std::filesystem::path& path, const std::vector<stage::NamedTensor>& weights,
                  const std::map<std::string, std::string>& metadata) {
  const std::vector<stage::NamedTensor> hosts = host_copies(weights);  // owns the bytes
  std::vector<safetensors::View> views;
  for (const auto& [name, host] : hosts)
    views.push_back({name, dtype_name(host.scalar_type()), host.sizes().vec(), bytes_of(host)});
  safetensors::write(path, views, metadata);
}

std::string digest_weights(const std::vector<stage::NamedTensor>& weights) {
  Hasher hasher;
  for (const auto& [name, tensor] : weights) {
    hasher.add(name);
    hasher.add(bytes_of(on_host(tensor)));
  }
  return hasher.hex();
}

namespace {

std::vector<std::string> parameter_names(const stage::Model& model) {
  std::vector<std::string> names;
  for (stage::NamedTensor& parameter : model.parameters())
    names.push_back(std::move(parameter.name));
  return names;
}

std::vector<weights::Entry> entries_of(const std::vector<stage::NamedTensor>& tensors) {
  std::vector<weights::Entry> entries;
  for (const auto& [name, tensor] : tensors)
    entries.push_back({name, dtype_name(tensor.scalar_type()), tensor.sizes().vec()});
  return entries;
}

}  // namespace

weights::Match match_weights(const stage::Model& model, const std::vector<weights::Entry>& offered,
                             weights::MatchOptions options) {
  options.last_layer = weights::last_layer_of(parameter_names(model));
  return weights::match(offered, entries_of(weights_of(model)), options);
}

void load_weights(const stage::Model& model, const std::filesystem::path& file,
                  weights::MatchOptions options, events::WeightsSet& report) {
  const safetensors::File source(file);
  const data::WatchedPages watched(source.mapping().bytes(), source.mapping().fd(),
                                   printable(file.string()));
  std::vector<weights::Entry> offered;
  for (const safetensors::View& view : source.tensors())
    offered.push_back({view.name, view.dtype, view.shape});
  const std::vector<stage::NamedTensor> tensors = weights_of(model);
  weights::Match match = match_weights(model, offered, std::move(options));
  const at::NoGradGuard guard;
  for (const auto& [from, to] : match.pairs) {
    const safetensors::View& view = source.tensors()[from];
    tensors[to].tensor.copy_(tensor_from(view.dtype, view.shape, view.bytes));
    report.loaded.push_back(tensors[to].name);
  }
  report.reinitialized = std::move(match.reinitialized);
  report.missing = std::move(match.missing);
  report.ignored = std::move(match.ignored);
  report.notes.insert(report.notes.end(), match.notes.begin(), match.notes.end());
}

std::vector<std::string> freeze(const stage::Model& model,
                                const std::vector<std::string>& patterns) {
  const std::vector<stage::NamedTensor> parameters = model.parameters();
  std::vector<std::string> frozen;
  for (const std::size_t i : weights::frozen_by(patterns, parameter_names(model))) {
    parameters[i].tensor.set_requires_grad(false);
    frozen.push_back(parameters[i].name);
  }
  return frozen;
}

std::vector<UnfrozenLater> unfreeze_later(const stage::Model& model,
                                          const std::vector<spec::Unfreeze>& stages) {
  if (stages.empty()) return {};
  const std::vector<stage::NamedTensor> parameters = model.parameters();
  const bool trains_first = !trained_parameters(model).empty();
  std::vector<UnfrozenLater> later;
  std::vector<bool> is_taken(parameters.size(), false);
  for (const spec::Unfreeze& stage : stages) {
    later.push_back({stage.epoch, {}});
    for (const std::size_t i :
         weights::frozen_by(stage.match, parameter_names(model), "unfreeze_at")) {
      ENSURE(config, !is_taken[i], "unfreeze_at: '{}' is in two entries\nhint: name it once",
             printable(parameters[i].name));
      ENSURE(config, !parameters[i].tensor.requires_grad(),
             "unfreeze_at: '{}' is not frozen\nhint: add it to 'freeze'",
             printable(parameters[i].name));
      is_taken[i] = true;
      later.back().parameters.push_back(parameters[i].tensor);
    }
  }
  ENSURE(config, trains_first,
         "there is nothing to train in the first epoch: every parameter is frozen\nhint: leave the "
         "last layer out of 'freeze'");
  set_trained(later, std::numeric_limits<std::int64_t>::max());
  return later;
}

void set_trained(const std::vector<UnfrozenLater>& stages, std::int64_t epoch) {
  for (const UnfrozenLater& stage : stages) {
    for (const at::Tensor& parameter : stage.parameters)
      parameter.set_requires_grad(epoch >= stage.epoch);
  }
}

}  // namespace trainctl::train
