#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trainctl::weights {

/// Whether a pattern names the parameter. `*`, `?` and `[...]` as in a shell, a `*` crosses dots; a
/// pattern that names a layer ("conv1", "layer?") names all below it.
bool names(const std::string& pattern, const std::string& parameter);

/// Which of the parameters the patterns name, in their order. Throws Error(config) for a pattern
/// that names none.
std::vector<std::size_t> frozen_by(const std::vector<std::string>& patterns,
                                   const std::vector<std::string>& parameters);

}  // namespace trainctl::weights
