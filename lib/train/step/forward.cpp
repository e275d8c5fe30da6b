#include "train/step/forward.hpp"

#include "base/machine/host_waits.hpp"
#include "device/host_read.hpp"
#include "stage/forward_context.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include <cmath>

namespace trainctl::train {
namespace {

constexpr const char* kPlace = "sum of the losses";  // of the host waits

}  // namespace

ForwardOptions forward_options(const spec::Trainer& trainer) {
  return {trainer.precision, trainer.channels_last.value_or(false)};
}

at::Tensor forward(stage::Model& model, const at::Tensor& inputs, const ForwardOptions& options) {
  const bool reorders = options.channels_last && inputs.dim() == 4;
  const at::Tensor x = reorders ? inputs.contiguous(at::MemoryFormat::ChannelsLast) : inputs;
  if (options.precision == spec::Precision::full) return model.forward(x);
  const bool bf16 = options.precision == spec::Precision::bf16_mixed;
  const stage::Autocast scope(x.device().type(), bf16 ? at::kBFloat16 : at::kHalf);
  at::Tensor logits = model.forward(x);
  return options.widens_logits ? logits.to(at::kFloat) : logits;
}

stage::LossValue loss_of(stage::Loss& loss, const at::Tensor& logits,
                         const device::DeviceBatch& batch) {
  if (!batch.lambda.defined()) return loss.forward(logits, batch.targets);
  return loss.forward_mixed(logits, {batch.targets, batch.targets_b, batch.lambda});
}

at::Tensor PlainTools::forward_frozen(stage::Model& other, const at::Tensor& inputs) {
  const at::NoGradGuard guard;
  return train::forward(other, inputs, options_);
}

stage::LossValue PlainTools::loss(const at::Tensor& outputs, const device::DeviceBatch& batch,
                                  double /*factor*/) {
  return loss_of(loss_, outputs, batch);
}

stage::BatchSamples PlainTools::samples(const device::DeviceBatch& batch) {
  stage::BatchSamples samples;
  for (std::int64_t row = 0; row < batch.inputs.size(0); ++row) samples.indices.push_back(row);
  return samples;
}

stage::BatchSamples samples_of(const data::Loader& loader, const data::Batch& batch,
                               std::int64_t rows) {
  stage::BatchSamples samples{batch.epoch, loader.indices_of(batch)};
  samples.indices.resize(static_cast<std::size_t>(rows));
  return samples;
}

void lay_out_channels_last(const stage::Model& model) {
  const at::NoGradGuard guard;
  for (const auto& [name, parameter] : model.parameters()) {
    if (parameter.dim() == 4)
      parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  }
}

LossMeter::LossMeter(at::Device device, NotFinite not_finite, Rows rows)
    : leaves_out_(not_finite == NotFinite::is_left_out), on_device_(rows == Rows::on_device) {
  if (device.is_cpu() && !on_device_) return;
  device_total_ = at::zeros({}, at::TensorOptions(at::kDouble).device(device));
  device_weight_ = at::zeros({}, at::TensorOptions(at::kDouble).device(device));
}

bool LossMeter::add(const stage::LossValue& loss, std::int64_t rows) {
  if (rows == 0) return true;  // padding does not count
  if (!device_total_.defined()) return add_on_cpu(loss, rows);
  add_on_device(loss, rows);
  return true;
}

bool LossMeter::add_on_cpu(const stage::LossValue& loss, std::int64_t rows) {
  const double value = *loss.value.const_data_ptr<float>();
  if (leaves_out_ && !std::isfinite(value)) return true;
  if (loss.weight.defined()) {
    total_ += value;
    weight_ += *loss.weight.const_data_ptr<float>();
  } else {
    total_ += value * static_cast<double>(rows);
    weight_ += static_cast<double>(rows);
  }
  return std::isfinite(value);
}

void LossMeter::add_on_device(const stage::LossValue& loss, std::int64_t rows) {
  const at::NoGradGuard guard;
  if (leaves_out_) {
    const at::Tensor finite = loss.value.isfinite();
    const auto ones = static_cast<double>(rows);
    const at::Tensor weight = loss.weight.defined() ? loss.weight : at::full_like(loss.value, ones);
    const double times = loss.weight.defined() ? 1 : ones;
    device_total_.add_(at::where(finite, loss.value.detach(), 0), times);
    device_weight_.add_(weight * finite);
  } else if (loss.weight.defined()) {
    device_total_.add_(loss.value.detach());
    device_weight_.add_(loss.weight);
  } else {
    device_total_.add_(loss.value.detach(), static_cast<double>(rows));
    if (on_device_) {
      device_weight_.add_(static_cast<double>(rows));
    } else {
      weight_ += static_cast<double>(rows);
    }
  }
}

at::Tensor LossMeter::sums() const {
  if (!device_total_.defined()) return at::tensor({total_, weight_}, at::kDouble);
  return at::stack({device_total_, device_weight_ + weight_});
}

double LossMeter::total() const {
  if (!device_total_.defined()) return total_;
  return device::value_of<double>(device_total_, kPlace);
}

double LossMeter::weight() const {
  if (weight_ > 0 || !device_weight_.defined()) return weight_;
  return device::value_of<double>(device_weight_, kPlace);
}

void LossMeter::reset() {
  if (device_total_.defined()) {
    device_total_.zero_();
    device_weight_.zero_();
  }
  total_ = 0;
  weight_ = 0;
}

void LossMeter::add(const LossMeter& other) {
  if (device_total_.defined()) {
    device_total_.add_(other.device_total_);
    device_weight_.add_(other.device_weight_);
  }
  total_ += other.total_;
  weight_ += other.weight_;
}

std::vector<stage::NamedTensor> LossMeter::state() const {
  if (!device_total_.defined()) return {};
  return {{"total", device_total_}, {"weight", device_weight_}};
}

void LossMeter::serialize(StateArchive& archive) {
  archive.value("total", &total_);
  archive.value("weight", &weight_);
}

void update_metrics(const std::vector<std::unique_ptr<stage::Metric>>& metrics,
                    const stage::Loss& loss, const at::Tensor& logits, const at::Tensor& targets) {
  at::Tensor rows = logits.detach();
  at::Tensor labels = targets;
  if (const auto ignored = loss.ignored_label(); ignored && !metrics.empty()) {
    if (rows.dim() == 4) rows = rows.permute({0, 2, 3, 1}).flatten(0, 1);
    if (rows.dim() == 3) rows = rows.flatten(0, 1);  // one row for each token or pixel
    if (!labels.is_cpu()) count_host_wait("number of labels that are not loss.ignore_index");
    labels = labels.flatten();
    const at::Tensor counted = labels.ne(*ignored).nonzero().squeeze(1);
    rows = rows.index_select(0, counted);
    labels = labels.index_select(0, counted);
  }
  at::Tensor wide;  // converted once, and only if a metric needs it
  for (const auto& metric : metrics) {
    if (!metric->accepts_16_bit() && !wide.defined())
      wide = rows.to(c10::promoteTypes(rows.scalar_type(), at::kFloat));
    metric->update(metric->accepts_16_bit() ? rows : wide, labels);
  }
}

}  // namespace trainctl::train
