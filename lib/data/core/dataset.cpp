#include "data/core/dataset.hpp"

namespace trainctl::data {

const Field* Facts::image() const {
  const std::size_t image = find_field(layout, "image");
  return image == layout.size() ? nullptr : &layout[image];
}

}  // namespace trainctl::data
