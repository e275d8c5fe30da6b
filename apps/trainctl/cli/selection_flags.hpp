#pragma once

#include "weights/import.hpp"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trainctl::app {

/// Which tensors of a file of weights are taken, and under which names.
struct SelectionFlags {
  std::string section;
  std::string prefix;
  std::vector<std::string> key_map;  // "FROM=TO"
};

/// Adds --section, --prefix and --key-map.
void add_selection_flags(CLI::App& verb, SelectionFlags& flags);

/// Throws Error(config) for a --key-map that is not FROM=TO.
weights::Selection selection_of(const SelectionFlags& flags);

}  // namespace trainctl::app
