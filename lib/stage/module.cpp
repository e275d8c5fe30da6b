#include "stage/module.hpp"

#include "base/machine/host_waits.hpp"

#include <utility>

namespace trainctl::stage {

void Module::to(at::Device device) {
  for (const auto* list : {&parameters_, &buffers_}) {
    for (const NamedTensor& named : *list) {
      if (named.tensor.device() != device) count_host_wait("weights to the device");
      named.tensor.set_data(named.tensor.detach().to(device));
    }
  }
}

at::Tensor Module::add_parameter(std::string name, at::Tensor tensor) {
  tensor.set_requires_grad(true);
  return parameters_.emplace_back(std::move(name), std::move(tensor)).tensor;
}

at::Tensor Module::add_buffer(std::string name, at::Tensor tensor) {
  return buffers_.emplace_back(std::move(name), std::move(tensor)).tensor;
}

bool Module::checkpoint_activations() {
  checkpoints_ = has_blocks();
  return checkpoints_;
}

}  // namespace trainctl::stage
