#pragma once

#include "stage/stages.hpp"
#include "stages/optimizer/fused.hpp"

#include <memory>
#include <string>
#include <vector>

// A little network of tensors alone, which every optimizer updates from made-up gradients; and what
// it has come to, to be compared bit for bit.

namespace stages_test {

/// An optimizer and its options as YAML.
struct Variant {
  std::string type;
  std::string options;
};

/// Every optimizer with what all have, then with what only some have.
std::vector<Variant> variants();

using Tensors = std::vector<trainctl::stage::NamedTensor>;

/// The names of those whose bits differ.
std::vector<std::string> differing(const Tensors& a, const Tensors& b);

struct Kept {
  Tensors weights;
  Tensors state;
  std::string memo;
};

/// Gradients depend on the weights and the step; some are missing in some steps.
class Training {
 public:
  explicit Training(const Variant& variant);

  /// Some of them are left out, and rate and momentum change early on.
  void steps(int from, int to);
  void give_gradients(int step);
  /// Every gradient becomes NaN.
  void spoil_gradients();

  [[nodiscard]] Kept keep() const;
  void take_back(const Kept& kept, const std::string& left_out = "");

  trainctl::stages::FusedOptimizer& optimizer() {
    return dynamic_cast<trainctl::stages::FusedOptimizer&>(*optimizer_);
  }

 private:
  void take(int step);

  Tensors weights_;
  std::unique_ptr<trainctl::stage::Optimizer> optimizer_;
};

}  // namespace stages_test
