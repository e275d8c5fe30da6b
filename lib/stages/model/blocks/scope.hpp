#pragma once

#include "stages/model/layers.hpp"

#include <cstddef>
#include <string>

namespace trainctl::stages {

/// A place in the tree of names that PyTorch's modules make: the weight of `scope / "layer1" / 0 /
/// "conv1"` is "layer1.0.conv1.weight". A block is built in a scope; its tensors go to the module
/// behind it, in the order in which they are made.
class Scope {
 public:
  explicit Scope(LayeredModule& module) : module_(&module) {}

  [[nodiscard]] Scope operator/(const std::string& child) const;
  /// The child of a Sequential.
  [[nodiscard]] Scope operator/(std::size_t child) const { return *this / std::to_string(child); }

  /// Each gives the tensor to the module and returns its handle.
  [[nodiscard]] at::Tensor parameter(const std::string& name, at::Tensor tensor) const;
  [[nodiscard]] at::Tensor buffer(const std::string& name, at::Tensor tensor) const;

 private:
  Scope(LayeredModule& module, std::string prefix) : module_(&module), prefix_(std::move(prefix)) {}

  LayeredModule* module_;
  std::string prefix_;  // "" or "layer1.0."
};

}  // namespace trainctl::stages
