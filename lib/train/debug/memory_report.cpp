#include "train/debug/memory_report.hpp"

#include "train/measure/layer_times.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

namespace trainctl::train {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kUsable = 0.9;  // the estimate is coarse, and fragmentation wastes some memory

std::string size_text(double mib) {
  return mib < 1024 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

std::string largest_text(const std::vector<LayerOutput>& outputs) {
  std::string text;
  for (const LayerOutput& output : outputs) {
    text += fmt::format("{} {} ({}) with {} {}, {}",
                        text.empty() ? "; the largest activations:" : ";", output.where, output.op,
                        shape_text(output.shape), output.dtype, size_text(output.mib));
  }
  return text;
}

}  // namespace

std::optional<double> size_after(const std::string& text, const std::string& words) {
  std::string lower_case = text;
  std::ranges::transform(text, lower_case.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::size_t found = lower_case.find(words);
  if (found == std::string::npos) return std::nullopt;
  const std::size_t begin = text.find_first_not_of(' ', found + words.size());
  if (begin == std::string::npos) return std::nullopt;
  double value = 0;
  const auto [end, failure] =
      std::from_chars(text.data() + begin, text.data() + text.size(), value);
  if (failure != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  std::string_view unit =
      std::string_view(text).substr(static_cast<std::size_t>(end - text.data()));
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  constexpr std::array<std::pair<const char*, double>, 4> kUnits{
      {{"bytes", 1 / kMiB}, {"KiB", 1.0 / 1024}, {"MiB", 1}, {"GiB", 1024}}};
  for (const auto& [name, mib] : kUnits) {
    if (unit.starts_with(name)) return value * mib;
  }
  return std::nullopt;
}

std::int64_t fitting_batch(const MemoryUse& use) {
  const auto limit = use.free ? std::optional(use.now + *use.free)  // total for the process
                              : size_after(use.cause, "total capacity of");
  const double wanted = use.peak + size_after(use.cause, "tried to allocate").value_or(0);
  const double for_rows = wanted - use.before;
  if (!limit || for_rows <= 0 || use.batch < 2) return 0;
  const double share = kUsable * (*limit - use.before) / for_rows;
  if (share <= 0) return 0;
  const auto rows = static_cast<std::int64_t>(share * static_cast<double>(use.batch));
  return std::clamp<std::int64_t>(rows, 0, use.batch / 2);  // the current batch did not fit
}

bool has_room_for_a_row(const MemoryUse& use) {
  if (!use.free || use.batch < 1) return true;
  const double refused = size_after(use.cause, "tried to allocate").value_or(0);
  return refused / static_cast<double>(use.batch) < *use.free / 2;
}

std::string memory_report(const MemoryUse& use) {
  std::string text = fmt::format(
      "out of memory in phase {} after step {}, with {} samples per batch: {}; the process used {} "
      "before the first step and at most {} later",
      use.phase, use.step, use.batch, use.cause, size_text(use.before), size_text(use.peak));
  if (use.free) text += fmt::format(", and {} are free now", size_text(*use.free));
  text += largest_text(use.largest);
  const std::int64_t rows = fitting_batch(use);
  if (rows > 0) {
    text += fmt::format(
        "; a batch of about {} samples would fit\nhint: set loader.batch_size={} and "
        "trainer.accumulate_grad_batches={} (an optimizer step then uses at least as many samples "
        "as now)",
        rows, rows, use.accumulate * ((use.batch + rows - 1) / rows));
  } else {
    text += "\nhint: lower loader.batch_size and raise trainer.accumulate_grad_batches";
  }
  return text +
         "; set trainer.activation_checkpointing=blocks (keeps fewer activations); set "
         "trainer.precision=bf16-mixed (halves most activations); or use a smaller model";
}

namespace {

constexpr double kMinor = 100;  // outputs this many times smaller than the largest are omitted

std::string name_of(at::ScalarType type) {
  if (type == at::kFloat) return "float32";
  if (type == at::kBFloat16) return "bfloat16";
  if (type == at::kHalf) return "float16";
  return c10::toString(type);
}

std::string where(const LayerPlace& place) {
  if (place.layer.empty()) return "before the first layer";
  return place.owns ? place.layer : "after " + place.layer;
}

/// Records the largest output of each layer.
class Outputs final : public LayerTrace {
 public:
  Outputs(const stage::Model& model, std::int64_t times) : LayerTrace(model), times_(times) {}

  [[nodiscard]] std::vector<LayerOutput> largest(std::size_t count) const {
    std::vector<LayerOutput> outputs;
    for (const auto& [layer, output] : by_layer_) outputs.push_back(output);
    std::ranges::stable_sort(outputs, std::greater<>(), &LayerOutput::mib);
    std::erase_if(outputs, [most = outputs.empty() ? 0 : outputs.front().mib](
                               const LayerOutput& output) { return output.mib < most / kMinor; });
    outputs.resize(std::min(count, outputs.size()));
    return outputs;
  }

 private:
  void operator_ends(const LayerFrame& frame, const at::RecordFunction& op,
                     const LayerCall& call) override {
    if (!call.outermost) return;
    for (const at::Tensor& output : tensors_in(op.outputs())) {
      if (is_own(output, call)) note(frame.place, output);
    }
  }

  /// Returns whether the layer allocated `output`: it is neither an input nor a view of one.
  static bool is_own(const at::Tensor& output, const LayerCall& call) {
    return output.has_storage() && output.dim() > 0 &&
           std::ranges::none_of(call.inputs, [&](const at::Tensor& input) {
             return input.has_storage() && input.is_alias_of(output);
           });
  }

  void note(const LayerPlace& place, const at::Tensor& tensor) {
    const double mib =
        static_cast<double>(tensor.nbytes()) * static_cast<double>(times_) / (1 << 20);
    LayerOutput& known = by_layer_[place.layer];
    if (mib <= known.mib) return;
    known = {where(place), place.op, tensor.sizes().vec(), name_of(tensor.scalar_type()), mib};
    known.shape[0] *= times_;
  }

  std::int64_t times_;  // full batch size divided by the rows of the pass
  std::map<std::string, LayerOutput> by_layer_;
};

}  // namespace

std::vector<LayerOutput> largest_outputs(stage::Model& model, const at::Tensor& inputs,
                                         const ForwardOptions& options, std::int64_t rows,
                                         std::size_t count) {
  const std::int64_t seen = std::max<std::int64_t>(inputs.size(0), 1);
  const auto outputs = std::make_shared<Outputs>(model, std::max<std::int64_t>(rows / seen, 1));
  {
    const EvaluationMode mode(model);  // keeps the running statistics unchanged
    const at::NoGradGuard no_gradients;
    const LayerScope scope(outputs, LayerUse::measurement);
    outputs->enter(LayerPass::forward);
    (void)forward(model, inputs, options);
  }
  return outputs->largest(count);
}

}  // namespace trainctl::train
