#include "data/image/erase.hpp"

namespace trainctl::data {

void erase(const ImageView& input, const Box& box, const Fill& value, ImageTarget& output) {
  output.copy(input);
  const std::int64_t channels = input.shape.channels;
  for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
    value.paint(output.row(y) + box.left * channels, box.width, channels);
  }
}

}  // namespace trainctl::data
