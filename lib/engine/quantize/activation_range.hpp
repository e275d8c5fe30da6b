#pragma once

#include "spec/experiment/job.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace trainctl::engine {

/// How unsigned 8-bit integers q stand for numbers: (q - zero_point) * scale.
struct QuantizationParams {
  double scale = 1;
  std::int64_t zero_point = 0;
};

/// Watches the values of one activation and chooses their quantization like the observers of
/// torch.ao.quantization with reduce_range: with 7 of 8 bits, because the sums of products of x86
/// CPUs without VNNI could overflow otherwise.
class ActivationRange {
 public:
  explicit ActivationRange(spec::Observer observer) : observer_(observer) {}

  void add(const at::Tensor& values);
  /// Throws Error(config) if the values are not finite. Call it after add().
  [[nodiscard]] QuantizationParams params() const;

 private:
  using Range = std::pair<float, float>;
  /// Returns the range with the least error of quantization, which may leave out rare values.
  [[nodiscard]] Range best_range() const;
  [[nodiscard]] double error_of(std::int64_t first_bin, std::int64_t last_bin) const;

  spec::Observer observer_;
  std::optional<Range> range_;  // nullopt before the first values
  at::Tensor histogram_;        // float32 counts over the range, for Observer::histogram
};

}  // namespace trainctl::engine
