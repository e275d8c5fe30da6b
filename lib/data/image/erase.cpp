#include "data/image/erase.hpp"

#include "base/error.hpp"

namespace trainctl::data {

void erase(const ImageView& input, const Box& box, const Fill& value, ImageTarget& output) {
  ASSERT(box.height >= 0 && box.width >= 0);
  output.copy(input);
  const std::int64_t channels = input.shape.channels;
  for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
    value.paint(output.row(y) + box.left * channels, box.width, channels);
  }
}

}  // namespace trainctl::data
