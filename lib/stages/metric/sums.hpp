#pragma once

#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <string>
#include <utility>

namespace trainctl::stages {

/// A fraction of hits as two sums, [hits, rows]: exact in float64 up to 2^53 rows, whatever the
/// batches and ranks.
class Counted : public stage::Metric {
 public:
  Counted(std::string name, at::Device device)
      : name_(std::move(name)),
        sums_(at::zeros({2}, at::TensorOptions(at::kDouble).device(device))),
        hits_(sums_.select(0, 0)),
        rows_(sums_.select(0, 1)) {}

  [[nodiscard]] std::string name() const override { return name_; }
  at::Tensor& sums() override { return sums_; }
  /// NaN before the first row.
  [[nodiscard]] double value() const override {
    const at::Tensor host = sums_.cpu();
    return host.const_data_ptr<double>()[0] / host.const_data_ptr<double>()[1];
  }
  void reset() override { sums_.zero_(); }

 protected:
  /// `hit`: bool, any shape. Adds on the device, without waiting for it.
  void count(const at::Tensor& hit, std::int64_t rows) {
    if (sums_.is_cpu()) return count_here(hit.contiguous(), rows);
    hits_.add_(hit.sum());
    rows_.add_(rows);
  }

 private:
  /// Without three operators a step.
  void count_here(const at::Tensor& hit, std::int64_t rows) {
    const bool* first = hit.const_data_ptr<bool>();
    double* sums = sums_.mutable_data_ptr<double>();
    sums[0] += static_cast<double>(std::count(first, first + hit.numel(), true));
    sums[1] += static_cast<double>(rows);
  }

  std::string name_;
  at::Tensor sums_, hits_, rows_;
};

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
