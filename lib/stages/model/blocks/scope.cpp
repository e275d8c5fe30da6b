#include "stages/model/blocks/scope.hpp"

#include <utility>

namespace trainctl::stages {

Scope Scope::operator/(const std::string& child) const { return {*module_, prefix_ + child + "."}; }

at::Tensor Scope::parameter(const std::string& name, at::Tensor tensor) const {
  return module_->add_parameter(prefix_ + name, std::move(tensor));
}

at::Tensor Scope::buffer(const std::string& name, at::Tensor tensor) const {
  return module_->add_buffer(prefix_ + name, std::move(tensor));
}

}  // namespace trainctl::stages
