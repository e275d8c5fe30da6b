#include "train/loss_meter.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <cmath>

namespace trainctl::train {

LossMeter::LossMeter(at::Device device) {
  if (!device.is_cpu()) device_total_ = at::zeros({}, at::TensorOptions(at::kDouble).device(device));
}

bool LossMeter::add(const at::Tensor& mean_loss, std::int64_t rows) {
  rows_ += rows;
  if (rows == 0) return true;  // padding has no say
  if (device_total_.defined()) {
    const at::NoGradGuard guard;
    device_total_.add_(mean_loss.detach(), static_cast<double>(rows));
    return true;
  }
  const double loss = *mean_loss.const_data_ptr<float>();
  total_ += loss * static_cast<double>(rows);
  return std::isfinite(loss);
}

double LossMeter::total() const { return device_total_.defined() ? device_total_.item<double>() : total_; }

void LossMeter::reset() {
  if (device_total_.defined()) device_total_.zero_();
  total_ = 0;
  rows_ = 0;
}

}  // namespace trainctl::train
