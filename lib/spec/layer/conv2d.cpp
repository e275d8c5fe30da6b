#include "spec/layer/conv2d.hpp"

#include <fmt/format.h>

namespace trainctl::spec::layer {

LayerStep Conv2d::after(const LayerInput& input) const {
  LayerStep step = slid(input.shape, {kernel_size, stride, padding, dilation}, out_channels);
  if (!step.problem.empty()) return step;
  const std::int64_t in_channels = input.shape[0];
  if (in_channels % groups != 0 || out_channels % groups != 0) {
    step.problem = fmt::format("{} groups do not divide {} channels in and {} out", groups,
                               in_channels, out_channels);
    step.hint = "write 'groups: 1', or a number that divides both";
  }
  return step;
}

void Conv2d::describe(config::Describe<Conv2d>& options) {
  options.field("out_channels", &Conv2d::out_channels, "Channels of its output.")
      .required()
      .at_least(1)
      .at_most(1 << 20)
      .example("16");
  options.field("kernel_size", &Conv2d::kernel_size, "Height and width of the kernel.")
      .required()
      .at_least(1)
      .at_most(1 << 16)
      .example("3");
  options.field("stride", &Conv2d::stride, "Pixels from one place of the kernel to the next.")
      .at_least(1)
      .at_most(1 << 16);
  options.field("padding", &Conv2d::padding, "Zeros around the image, on each side.")
      .at_least(0)
      .at_most(1 << 16);
  options.field("dilation", &Conv2d::dilation, "Pixels from one element of the kernel to the next.")
      .at_least(1)
      .at_most(1 << 16);
  options
      .field("groups", &Conv2d::groups,
             "Parts of the channels that see only themselves; as many as channels: depthwise.")
      .at_least(1)
      .at_most(1 << 20);
  options.field("bias", &Conv2d::bias, "Adds a learnt bias.");
}

}  // namespace trainctl::spec::layer
