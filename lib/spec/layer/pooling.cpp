#include "spec/layer/pooling.hpp"

#include <fmt/format.h>

namespace trainctl::spec::layer {

LayerStep Pool2d::after(const LayerInput& input) const {
  const std::int64_t channels = input.shape.empty() ? 0 : input.shape[0];
  LayerStep after = slid(input.shape, {kernel_size, step(), padding}, channels);
  if (after.problem.empty() && padding * 2 > kernel_size) {
    after.problem = fmt::format("a padding of {} is more than half of a window of {}x{}", padding,
                                kernel_size, kernel_size);
    after.hint = fmt::format("write 'padding: {}' or less", kernel_size / 2);
  }
  return after;
}

void Pool2d::describe(config::Describe<Pool2d>& options) {
  options.field("kernel_size", &Pool2d::kernel_size, "Height and width of the window.")
      .required()
      .at_least(1)
      .at_most(1 << 16)
      .example("2");
  options
      .field("stride", &Pool2d::stride,
             "Pixels from one window to the next; otherwise kernel_size.")
      .at_least(1)
      .at_most(1 << 16)
      .example("2");
  options
      .field("padding", &Pool2d::padding,
             "Pixels around the image, on each side; at most half of kernel_size.")
      .at_least(0)
      .at_most(1 << 15);
}

}  // namespace trainctl::spec::layer
