#include "data/dataset.hpp"

#include <algorithm>

namespace trainctl::data {

const Field* Facts::image() const {
  const auto found = std::find_if(layout.begin(), layout.end(),
                                  [](const Field& field) { return field.name == "image"; });
  return found == layout.end() ? nullptr : &*found;
}

}  // namespace trainctl::data
