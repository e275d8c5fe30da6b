#pragma once

#include <string>
#include <vector>

namespace trainctl::study {

/// What cuts any experiment down to its first optimizer steps, each of them told: no validation,
/// nothing that ends it earlier, and nothing kept.
std::vector<std::string> short_run(int steps);

}  // namespace trainctl::study
