#include "train/layout.hpp"

#include <fmt/format.h>

namespace trainctl::train {

bool gains_by_channels_last(const LayoutFacts& facts) {
  return !facts.on_cpu && facts.precision != spec::Precision::full;
}

LayoutChoice choose_layout(const LayoutFacts& facts) {
  if (facts.on_cpu) return {false, "a CPU may gain or lose by it: 'trainctl tune' measures it"};
  if (!gains_by_channels_last(facts)) return {false, "a GPU gains by it only in 16 bits"};
  if (facts.convolution_flops <= 0) return {false, "the model has no convolutions of images"};
  const auto part = static_cast<double>(facts.convolution_flops);
  const double share = part / static_cast<double>(facts.flops);
  const bool channels_last = 3 * facts.convolution_flops >= 2 * facts.flops;
  return {channels_last, fmt::format("{:.0f} % of the operations are convolutions of images{}",
                                     100 * share, channels_last ? "" : ", less than two thirds")};
}

}  // namespace trainctl::train
