#pragma once

#include "stage/stages.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <string>
#include <utility>

namespace trainctl::stages {

/// A mean stored as [sum, count]. Sums of hits are exact in float64 up to 2^53 rows, independent of
/// batches and ranks.
class Averaged : public stage::Metric {
 public:
  Averaged(std::string name, at::Device device)
      : name_(std::move(name)),
        sums_(at::zeros({2}, at::TensorOptions(at::kDouble).device(device))),
        sum_(sums_.select(0, 0)),
        count_(sums_.select(0, 1)) {}

  [[nodiscard]] std::string name() const override { return name_; }
  at::Tensor& sums() override { return sums_; }
  /// Returns the mean; NaN before the first row.
  [[nodiscard]] double value() const override {
    const at::Tensor host = sums_.cpu();  // collect_metrics() counts the host wait
    return host.const_data_ptr<double>()[0] / host.const_data_ptr<double>()[1];
  }
  void reset() override { sums_.zero_(); }

 protected:
  /// Adds values on their device without synchronizing.
  void add(const at::Tensor& values) {
    sum_.add_(values.sum(at::kDouble));
    count_.add_(values.numel());
  }

  /// Adds hits, a bool tensor of any shape, that come from `rows` rows.
  void add_hits(const at::Tensor& hit, std::int64_t rows) {
    if (sums_.is_cpu()) return add_hits_here(hit.contiguous(), rows);
    sum_.add_(hit.sum());
    count_.add_(rows);
  }

 private:
  /// Avoids three operator calls per step.
  void add_hits_here(const at::Tensor& hit, std::int64_t rows) {
    const bool* first = hit.const_data_ptr<bool>();
    double* sums = sums_.mutable_data_ptr<double>();
    sums[0] += static_cast<double>(std::count(first, first + hit.numel(), true));
    sums[1] += static_cast<double>(rows);
  }

  std::string name_;
  at::Tensor sums_, sum_, count_;
};

}  // namespace trainctl::stages
