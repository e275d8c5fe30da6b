#pragma once

#include "stage/module.hpp"

#include <memory>
#include <utility>

namespace trainctl::stages {

/// A layer without parameters: a function of its input, and of the mode where it asks for it.
template <class Function>
class FunctionLayer final : public stage::Module {
 public:
  explicit FunctionLayer(Function function) : function_(std::move(function)) {}

  at::Tensor forward(const at::Tensor& inputs) override {
    if constexpr (requires { function_(inputs, stage::RunMode::train); })
      return function_(inputs, mode());
    else
      return function_(inputs);
  }

 private:
  Function function_;
};

template <class Function>
std::unique_ptr<stage::Model> make_function_layer(Function function) {
  return std::make_unique<FunctionLayer<Function>>(std::move(function));
}

}  // namespace trainctl::stages
