#include "train/state/start.hpp"

#include "base/error.hpp"
#include "base/safetensors.hpp"
#include "base/strings.hpp"
#include "data/formats/lost_pages.hpp"
#include "train/state/weights.hpp"
#include "weights/parameter_patterns.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <utility>

namespace trainctl::train {
namespace {

std::vector<std::string> parameter_names(const stage::Model& model) {
  std::vector<std::string> names;
  for (stage::NamedTensor& parameter : model.parameters())
    names.push_back(std::move(parameter.name));
  return names;
}

/// On the host. A copy: a file promises no alignment, and may change.
at::Tensor tensor_of(const safetensors::View& view, at::ScalarType dtype) {
  at::Tensor tensor = at::empty(view.shape, dtype);
  if (!view.bytes.empty())
    std::memcpy(tensor.mutable_data_ptr(), view.bytes.data(), view.bytes.size());
  return tensor;
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
                  weights::MatchOptions options, events::WeightsSet& told) {
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
    tensors[to].tensor.copy_(tensor_of(view, dtype_of(view.dtype)));
    told.loaded.push_back(tensors[to].name);
  }
  told.redrawn = std::move(match.redrawn);
  told.missing = std::move(match.missing);
  told.ignored = std::move(match.ignored);
  told.notes.insert(told.notes.end(), match.notes.begin(), match.notes.end());
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

}  // namespace trainctl::train
