#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>

namespace trainctl::dist {

struct Place {
  int rank = 0;
  int world_size = 1;
};

/// The first bucket is small, so that the exchange starts early in backward.
struct BucketOptions {
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t cap_bytes = std::size_t{25} << 20;
};

/// Averages gradients over the ranks while backward runs. The layout of its buckets never changes,
/// so that a resumed run adds in the same order as an uninterrupted one.
class GradSync {
 public:
  virtual ~GradSync() = default;
  /// Before the forward whose backward is to be averaged; the earlier ones of an accumulation call
  /// neither.
  virtual void before_forward() = 0;
  /// Runs loss.backward(); on return every gradient holds the average over the ranks. Returns the
  /// seconds that the exchange took after the last gradient was computed.
  virtual double backward(const at::Tensor& loss) = 0;
  /// The buckets in the order of the exchange, each as parameters x elements: "2x1300,14x25600".
  /// Empty where nothing is exchanged.
  [[nodiscard]] virtual std::string layout() const { return {}; }
};

}  // namespace trainctl::dist
