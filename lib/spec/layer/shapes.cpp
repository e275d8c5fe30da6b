#include "spec/layer/shapes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trainctl::spec::layer {

std::string shape_text(const Shape& shape) { return fmt::format("{}", fmt::join(shape, "x")); }

LayerStep no_image() {
  return {{}, "it needs an image, C x H x W", "put it in front of 'flatten' and 'linear'"};
}

LayerStep slid(const Shape& shape, const Window& window, std::int64_t channels) {
  if (shape.size() != 3) return no_image();
  const std::int64_t span = window.dilation * (window.kernel_size - 1) + 1;
  Shape out{channels};
  for (const std::size_t axis : {1U, 2U}) {
    const std::int64_t room = shape[axis] + 2 * window.padding;
    if (span > room) {
      return {{},
              fmt::format("a window of {0}x{0} is larger than that", span),
              "make 'kernel_size' smaller, or leave out a layer that shrinks the image"};
    }
    out.push_back((room - span) / window.stride + 1);
  }
  return {out, {}, {}};
}

}  // namespace trainctl::spec::layer
