#pragma once

#include "config/tree/load.hpp"

namespace trainctl::config {

/// `overlay` laid over `base`, as `extends` does. Short forms that the grammar describes count as
/// long ones: a short form and a map without the key that it stands for (`path` of weights, `type`
/// of a stage) are merged, whichever comes first.
Node merge(Node base, Node overlay, const Grammar& grammar);

/// As load_files(), with the grammar that bases are merged under.
LoadedTree load_files(const std::filesystem::path& file, Diagnostics& diagnostics,
                      const Grammar& grammar);

}  // namespace trainctl::config
