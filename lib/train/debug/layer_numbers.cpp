#include "train/debug/layer_numbers.hpp"

#include "train/debug/tensor_stats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace trainctl::train {
namespace {

constexpr std::size_t kMost = 200;

std::string name_of(const LayerPlace& place) {
  if (place.pass == LayerPass::loss) return fmt::format("the loss ({})", place.op);
  if (place.layer.empty()) return fmt::format("before the first layer ({})", place.op);
  return fmt::format("{}{} ({})", place.owns ? "" : "after ", place.layer, place.op);
}

/// A view has no values of its own; what was changed in place has.
bool is_view(const at::Tensor& output, const LayerCall& call, std::string_view op) {
  if (op.ends_with('_')) return false;
  return std::ranges::any_of(call.inputs, [&](const at::Tensor& input) {
    return input.has_storage() && output.has_storage() && input.is_alias_of(output);
  });
}

}  // namespace

void LayerNumbers::operator_ends(const LayerFrame& frame, const at::RecordFunction& op,
                                 const LayerCall& call) {
  const bool forward = pass() == LayerPass::forward || pass() == LayerPass::loss;
  if (!forward || !call.outermost || call.inputs.empty()) return;
  for (const at::Tensor& output : tensors_in(op.outputs())) {
    const bool wanted = output.is_floating_point() && !is_view(output, call, op.name());
    if (wanted && layers_.size() < kMost)
      layers_.push_back(summary_of(name_of(frame.place), output));
  }
}

}  // namespace trainctl::train
