#include "train/measure/layout.hpp"

#include "base/statistics.hpp"
#include "train/measure/turns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace trainctl::train {
namespace {

constexpr double kWorthIt = 1.15;

Steps repeated(const std::function<void()>& step) {
  return [&step](int steps) {
    for (int i = 0; i < steps; ++i) step();
  };
}

}  // namespace

bool gains_by_channels_last(spec::Precision precision) {
  return precision != spec::Precision::full;
}

LayoutChoice choose_layout(const LayoutFacts& facts) {
  if (facts.convolution_flops <= 0) return {false, kNoConvolutions};
  const auto part = static_cast<double>(facts.convolution_flops);
  const double share = part / static_cast<double>(facts.flops);
  const bool channels_last = 3 * facts.convolution_flops >= 2 * facts.flops;
  return {channels_last, fmt::format("{:.0f} % of the operations are convolutions of images{}",
                                     100 * share, channels_last ? "" : ", less than two thirds")};
}

LayoutChoice probe_layout(const LayoutProbe& probe, const Clock& clock) {
  const auto [first, last] =
      time_in_turns(repeated(probe.channels_first), repeated(probe.channels_last), clock);
  std::vector<double> gains;
  for (std::size_t i = 0; i < first.size(); ++i) gains.push_back(first[i] / last[i]);
  const double gain = median(gains);
  const bool never_slower = *std::ranges::min_element(gains) > 1;
  return {gain >= kWorthIt && never_slower,
          fmt::format("probe: {:.2f}x as fast with the channels last{}", gain,
                      gain >= kWorthIt && !never_slower ? ", but not in every round" : "")};
}

}  // namespace trainctl::train
