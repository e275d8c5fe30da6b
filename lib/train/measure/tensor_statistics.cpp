#include "train/measure/tensor_statistics.hpp"

#include "device/host_read.hpp"
#include "train/measure/layer_trace.hpp"
#include "train/state/weights.hpp"

#include <cmath>
#include <utility>

namespace trainctl::train {
namespace {

constexpr const char* kStatisticsPlace = "norms and histograms of tensors";  // of the host waits

events::Distribution distribution_of(std::int64_t step, std::string tag, const at::Tensor& tensor) {
  const at::Tensor host =
      device::copy_to_host(tensor.detach(), kStatisticsPlace).to(at::kFloat).contiguous();
  events::Distribution found;
  static_cast<Histogram&>(found) =
      histogram_of(std::span(host.const_data_ptr<float>(), static_cast<std::size_t>(host.numel())));
  found.global_step = step;
  found.tag = std::move(tag);
  return found;
}

}  // namespace

TensorStatistics::TensorStatistics(const Session& session, const Options& options,
                                   const StepRunner& step)
    : session_(session),
      options_(options),
      step_(step),
      trained_(trained_parameters(session.model)) {}

void TensorStatistics::on_step_end(LoopState& state) {
  if (options_.log_layer_norms && logs_step(options_, state)) report_norms(state);
  if (options_.weights_every > 0 && state.position.global_step % options_.weights_every == 0)
    report_distributions(state);
}

/// The gradients are still those of the step, so their order is that of the norms.
void TensorStatistics::report_norms(const LoopState& state) const {
  if (!step_.norms().gradients.defined()) return;
  const at::Tensor norms = device::copy_to_host(step_.norms().gradients, kStatisticsPlace);
  events::LayerNorms event{state.position.epoch, state.position.global_step, {}};
  std::int64_t index = 0;
  for (const auto& [name, parameter] : trained_) {
    if (!parameter.grad().defined()) continue;
    const double norm = norms.const_data_ptr<double>()[index++];
    const std::string layer = layer_of(name);
    if (event.norms.empty() || event.norms.back().first != layer)
      event.norms.emplace_back(layer, 0);
    double& sum = event.norms.back().second;
    sum = std::hypot(sum, norm);
  }
  ASSERT(index == norms.numel());
  session_.emit(event);
}

void TensorStatistics::report_distributions(const LoopState& state) const {
  const std::int64_t step = state.position.global_step;
  for (const auto& [name, parameter] : trained_) {
    session_.emit(distribution_of(step, "weights/" + name, parameter));
    if (parameter.grad().defined())
      session_.emit(distribution_of(step, "gradients/" + name, parameter.grad()));
  }
}

}  // namespace trainctl::train
