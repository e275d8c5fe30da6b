#include "checkpoint/export.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/parts.hpp"
#include "checkpoint/verify.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace trainctl::checkpoint {
namespace {

std::string_view prefix_of(Weights weights) {
  if (weights == Weights::ema) return "averager/";
  return weights == Weights::best ? "keeper/best." : "model/";
}

std::vector<safetensors::View> views_of(const PartReader& file, Weights weights) {
  const std::string_view prefix = prefix_of(weights);
  std::vector<safetensors::View> views;
  for (const container::Entry& entry : file.entries()) {
    if (entry.name.size() > prefix.size() && entry.name.starts_with(prefix))
      views.push_back({entry.name.substr(prefix.size()), entry.dtype, entry.shape, entry.bytes});
  }
  return views;
}

/// Before its first update, an average contains no useful weights.
bool has_average(const PartReader& file) {
  const Json* at = &file.meta();
  for (const char* key : {"training", "averager", "updates"}) {
    if (!at->is_object() || !at->contains(key)) return !views_of(file, Weights::ema).empty();
    at = &at->at(key);
  }
  return !views_of(file, Weights::ema).empty() && *at != 0;
}

const char* name_of(Weights weights) {
  return enum_names(weights).at(static_cast<std::size_t>(weights));
}

std::string lacks(Weights weights) {
  if (weights == Weights::ema) return "no averaged weights: trainer.ema and trainer.swa were off";
  if (weights == Weights::best)
    return "no best weights: the current weights are the best, or best weights were not kept";
  return "no weights";
}

}  // namespace

Exported export_weights(const fs::path& checkpoint, Weights weights, const WriteWeights& write) {
  Exported exported;
  exported.manifest = read_manifest(checkpoint);
  const PartReader file(checkpoint, exported.manifest, 0);
  if (weights == Weights::validated) weights = has_average(file) ? Weights::ema : Weights::model;
  const std::vector<safetensors::View> views = views_of(file, weights);
  ENSURE(checkpoint, !views.empty(), "{} has {}", printable(checkpoint.string()), lacks(weights));
  exported.weights = weights;
  exported.tensors = views.size();
  for (const safetensors::View& view : views) exported.bytes += view.bytes.size();
  write(views, {{"format", "pt"},
                {"weights", name_of(weights)},
                {"epoch", std::to_string(exported.manifest.moment().epoch_number())},
                {"global_step", std::to_string(exported.manifest.global_step)}});
  return exported;
}

Exported export_weights(const fs::path& checkpoint, Weights weights, const fs::path& to) {
  return export_weights(checkpoint, weights, [&](const auto& tensors, const auto& metadata) {
    safetensors::write(to, tensors, metadata);
  });
}

}  // namespace trainctl::checkpoint
