#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trainctl::train {

/// Sum of losses over samples. On a GPU it stays on the device until it is read.
class LossMeter {
 public:
  explicit LossMeter(at::Device device);

  /// `mean_loss`: 0-d float32, the mean over `rows` samples. Returns false where a CPU sees at once that it is not
  /// finite; a GPU tells when the total is read.
  bool add(const at::Tensor& mean_loss, std::int64_t rows);
  /// Waits for the device.
  [[nodiscard]] double total() const;
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  void reset();

 private:
  at::Tensor device_total_;  // float64 scalar; undefined on a CPU
  double total_ = 0;
  std::int64_t rows_ = 0;
};

}  // namespace trainctl::train
