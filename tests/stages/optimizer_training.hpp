#pragma once

#include "stage/stages.hpp"
#include "stages/optimizer/fused.hpp"

#include <memory>
#include <string>
#include <vector>

// A small network of plain tensors, which every optimizer updates from artificial gradients, and
// its resulting state for bitwise comparisons.

namespace stages_test {

/// An optimizer with its options in YAML.
struct Variant {
  std::string type;
  std::string options;
};

/// Returns every optimizer, first with the common options, then with its own.
std::vector<Variant> variants();

using Tensors = std::vector<trainctl::stage::NamedTensor>;

/// Returns the names of the tensors that differ in their bits.
std::vector<std::string> differing(const Tensors& a, const Tensors& b);

struct Kept {
  Tensors weights;
  Tensors state;
  std::string state_json;
};

/// Trains on gradients that depend on the weights and the step; some are undefined in some steps.
class Training {
 public:
  explicit Training(const Variant& variant);

  /// Runs steps `from` to `to`. Some are skipped, and rate and momentum change early.
  void steps(int from, int to);
  void give_gradients(int step);
  /// Sets every gradient to NaN.
  void corrupt_gradients();

  [[nodiscard]] Kept keep() const;
  void restore(const Kept& kept, const std::string& left_out = "");

  trainctl::stages::FusedOptimizer& optimizer() {
    return dynamic_cast<trainctl::stages::FusedOptimizer&>(*optimizer_);
  }

 private:
  void take(int step);

  Tensors weights_;
  std::unique_ptr<trainctl::stage::Optimizer> optimizer_;
};

}  // namespace stages_test
