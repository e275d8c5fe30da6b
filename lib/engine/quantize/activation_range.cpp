#include "engine/quantize/activation_range.hpp"

#include "base/error.hpp"
#include "device/host_read.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/histc.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/repeat_interleave.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainctl::engine {
namespace {

// The constants of torch.ao.quantization's HistogramObserver.
constexpr std::int64_t kBins = 2048;
constexpr std::int64_t kUpsampling = 16;
constexpr double kLevels = 256;

/// The integral of the squared distance to the center over [begin, end], times the density.
at::Tensor squared_error(const at::Tensor& begin, const at::Tensor& end,
                         const at::Tensor& density) {
  return density * ((end * end * end - begin * begin * begin) / 3);
}

float value(const at::Tensor& number) {
  return device::value_of<float>(number, "range of an activation");
}

using Range = std::pair<float, float>;

at::Tensor counts_in(const at::Tensor& values, Range range) {
  return at::histc(values, kBins, range.first, range.second);
}

/// Returns the histogram over a wider range.
at::Tensor stretched(const at::Tensor& histogram, Range from, Range to) {
  const auto [min, max] = from;
  if (min == max) return counts_in(at::full({1}, min), to) * histogram.sum();
  const at::Tensor fine = at::repeat_interleave(histogram, kUpsampling) / kUpsampling;
  const float width = (max - min) / static_cast<float>(kBins * kUpsampling);
  const at::Tensor centers =
      at::linspace(min, max, kBins * kUpsampling + 1).narrow(0, 0, kBins * kUpsampling) +
      0.5 * width;
  const at::Tensor bounds = at::linspace(to.first, to.second, kBins + 1);
  const at::Tensor bins = at::bucketize(centers, bounds, /*out_int32=*/false, /*right=*/true)
                              .sub(1)
                              .clamp(0, kBins - 1);
  return at::bincount(bins, fine, kBins);
}

}  // namespace

void ActivationRange::add(const at::Tensor& values) {
  const auto [min, max] = at::aminmax(values);
  const Range range{value(min), value(max)};
  ENSURE(config, std::isfinite(range.first) && std::isfinite(range.second),
         "cannot quantize the model: an activation has values that are not finite\nhint: choose a "
         "checkpoint whose outputs are finite");
  const std::optional<Range> before = range_;
  range_ = before
               ? Range{std::min(before->first, range.first), std::max(before->second, range.second)}
               : range;
  if (observer_ == spec::Observer::min_max) return;
  const at::Tensor counts = counts_in(values, *range_);
  if (before && before != range_) histogram_ = stretched(histogram_, *before, *range_);
  histogram_ = before ? histogram_.to(at::kFloat) + counts : counts;
}

double ActivationRange::error_of(std::int64_t first_bin, std::int64_t last_bin) const {
  const double width = (static_cast<double>(range_->second) - range_->first) / kBins;
  const double level = width * static_cast<double>(last_bin - first_bin + 1) / kLevels;
  if (level == 0) return 0;
  const at::Tensor begin = (at::arange(kBins, at::kLong) - first_bin) * width;
  const at::Tensor end = begin + width;
  const auto level_of = [&](const at::Tensor& x) {
    return at::div(x, level, "floor").clamp(0, kLevels - 1);
  };
  const at::Tensor first = level_of(begin);
  const at::Tensor last = level_of(end);
  const at::Tensor density = histogram_ / width;
  const at::Tensor half = at::full({}, level / 2, at::kFloat);
  const at::Tensor error = squared_error(begin - (first + 0.5) * level, half, density) +
                           (last - first - 1) * squared_error(-half, half, density) +
                           squared_error(-half, end - (last * level + level / 2), density);
  return value(error.sum());
}

ActivationRange::Range ActivationRange::best_range() const {
  constexpr double kStep = 1e-5;
  const auto total = static_cast<double>(value(histogram_.sum()));
  const at::Tensor sums = at::cumsum(histogram_, 0).contiguous();
  const auto* below = sums.const_data_ptr<float>();
  double low = 0;
  double high = 1;
  std::int64_t first = 0;
  std::int64_t last = kBins - 1;
  double least = std::numeric_limits<double>::infinity();
  while (low < high) {
    const double next_low = low + kStep;
    const double next_high = high - kStep;
    std::int64_t left = first;
    std::int64_t right = last;
    while (left < last && below[left] < static_cast<float>(next_low * total)) ++left;
    while (right > first && below[right] > static_cast<float>(next_high * total)) --right;
    const bool moves_left = left - first > last - right;
    (moves_left ? low : high) = moves_left ? next_low : next_high;
    const std::int64_t next_first = moves_left ? left : first;
    const std::int64_t next_last = moves_left ? last : right;
    if (next_first == first && next_last == last) continue;
    const double error = error_of(next_first, next_last);
    if (error > least) break;
    least = error;
    first = next_first;
    last = next_last;
  }
  const auto [min, max] = *range_;
  const float width = (max - min) / kBins;
  return {min + width * static_cast<float>(first), min + width * static_cast<float>(last + 1)};
}

QuantizationParams ActivationRange::params() const {
  constexpr float kLargest = 127;
  ASSERT(range_.has_value());
  const Range range = observer_ == spec::Observer::histogram ? best_range() : *range_;
  const float min = std::min(range.first, 0.0F);
  const float max = std::max(range.second, 0.0F);
  const float scale = std::max((max - min) / kLargest, std::numeric_limits<float>::epsilon());
  const float zero = std::clamp(-std::nearbyint(min / scale), 0.0F, kLargest);
  return {scale, static_cast<std::int64_t>(zero)};
}

}  // namespace trainctl::engine
