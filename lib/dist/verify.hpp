#pragma once

#include "dist/communicator.hpp"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace trainctl::dist {

/// "fc1.weight: float32 [128, 784]", and whether it is trained.
std::string description_of(const std::string& name, const at::Tensor& tensor);
/// Of tensors without names, by number from 1.
std::vector<std::string> descriptions_of(const std::vector<at::Tensor>& tensors);

/// All ranks call it. Throws Error(config) on each of them, with the same sentence, where one has
/// other lines than rank 0: it names that rank and the first line that differs. `what` says what
/// they describe.
void verify_alike(Communicator& communicator, const std::vector<std::string>& lines,
                  const std::string& what);

}  // namespace trainctl::dist
