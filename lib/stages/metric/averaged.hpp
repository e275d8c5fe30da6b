#pragma once

#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <string>
#include <utility>

namespace trainctl::stages {

/// A mean as two sums, [sum, count], in float64.
class Averaged : public stage::Metric {
 public:
  Averaged(std::string name, at::Device device)
      : name_(std::move(name)),
        sums_(at::zeros({2}, at::TensorOptions(at::kDouble).device(device))),
        sum_(sums_.select(0, 0)),
        count_(sums_.select(0, 1)) {}

  [[nodiscard]] std::string name() const override { return name_; }
  at::Tensor& sums() override { return sums_; }
  void reset() override { sums_.zero_(); }

 protected:
  /// Adds on the device, without waiting for it.
  void add(const at::Tensor& values) {
    sum_.add_(values.sum(at::kDouble));
    count_.add_(values.numel());
  }
  /// NaN before the first row.
  [[nodiscard]] double mean() const {
    const at::Tensor host = sums_.cpu();
    return host.const_data_ptr<double>()[0] / host.const_data_ptr<double>()[1];
  }

 private:
  std::string name_;
  at::Tensor sums_, sum_, count_;
};

}  // namespace trainctl::stages
