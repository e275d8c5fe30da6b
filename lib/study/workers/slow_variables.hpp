#pragma once

#include <string>

namespace trainctl::study {

/// A variable of the environment that keeps idle threads of OpenMP awake: "OMP_WAIT_POLICY=active";
/// empty where none does.
std::string spin_variable();

/// The same, or another variable that slows runs down: "CUDA_LAUNCH_BLOCKING=1".
std::string slow_variable();

}  // namespace trainctl::study
