#include "data/image/resize_weights.hpp"

#include "base/error.hpp"
#include "data/image/resize.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace trainctl::data {
namespace {

// 255 << kMiddleBits times 2^16 is the most that a sum of 32 bits holds.
constexpr int kMostPrecision = 16;
constexpr std::size_t kSlack = 8;  // a load of 16 bytes may begin at the last weight

/// The triangle filter over the inputs [first, first + weights.size()), as ATen places it.
struct Window {
  std::int64_t first = 0;
  std::vector<double> weights;
};

/// In ATen's float32.
std::int64_t nearest_of(const ResizeAxis& axis, std::int64_t output) {
  const float scale = static_cast<float>(axis.input) / static_cast<float>(axis.output);
  const auto at = static_cast<std::int64_t>(static_cast<float>(output) * scale);
  return std::min(at, axis.input - 1);
}

Window window_of(const ResizeAxis& axis, std::int64_t output) {
  if (axis.interpolation == spec::transform::Interpolation::nearest)
    return {nearest_of(axis, output), {1.0}};
  const double scale = static_cast<double>(axis.input) / static_cast<double>(axis.output);
  const double support = std::max(scale, 1.0);
  const double inverse = scale >= 1.0 ? 1.0 / scale : 1.0;
  const double center = scale * (static_cast<double>(output) + 0.5);
  Window window;
  window.first = std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
  const std::int64_t end = std::min(static_cast<std::int64_t>(center + support + 0.5), axis.input);
  double sum = 0;
  for (std::int64_t i = window.first; i < end; ++i) {
    const double distance = std::abs((static_cast<double>(i) - center + 0.5) * inverse);
    window.weights.push_back(std::max(0.0, 1.0 - distance));
    sum += window.weights.back();
  }
  for (double& weight : window.weights) weight /= sum;
  return window;
}

int precision_of(double most) {
  int precision = kMostPrecision;
  while (most * static_cast<double>(1 << precision) > 32'766.0) --precision;
  return precision;
}

/// Rounds the running sum instead of each weight, so that they add up to exactly 1.
void quantise(const std::vector<double>& weights, int precision, std::int16_t* out) {
  const double one = static_cast<double>(1 << precision);
  double sum = 0;
  std::int64_t given = 0;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    sum += weights[k];
    const std::int64_t until = k + 1 == weights.size() ? 1 << precision : std::llrint(sum * one);
    out[k] = static_cast<std::int16_t>(until - given);
    given = until;
  }
}

AxisWeights make_weights(const ResizeAxis& axis) {
  AxisWeights made;
  std::vector<Window> windows;
  double most = 0;  // of all outputs, so that a part has the bytes of the whole
  std::size_t taps = 0;
  for (std::int64_t i = 0; i < axis.output; ++i) {
    Window window = window_of(axis, i);
    most = std::max(most, *std::max_element(window.weights.begin(), window.weights.end()));
    if (i < axis.first || i >= axis.first + axis.count) continue;
    taps = std::max(taps, window.weights.size());
    windows.push_back(std::move(window));
  }
  const Window& last = windows.back();
  made.begin = windows.front().first;
  made.end = last.first + static_cast<std::int64_t>(last.weights.size());
  made.pairs = static_cast<int>((taps + 1) / 2);
  made.precision = precision_of(most);
  const std::size_t stride = 2 * static_cast<std::size_t>(made.pairs);
  made.weights.resize(windows.size() * stride + kSlack);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    made.start.push_back(static_cast<std::int32_t>(windows[i].first - made.begin));
    quantise(windows[i].weights, made.precision, made.weights.data() + i * stride);
  }
  return made;
}

struct Cache {
  std::map<ResizeAxis, std::shared_ptr<const AxisWeights>> axes;
  std::size_t bytes = 0;
};

}  // namespace

std::shared_ptr<const AxisWeights> axis_weights(const ResizeAxis& axis) {
  ASSERT(axis.input > 0 && axis.first >= 0 && axis.count > 0 &&
         axis.first + axis.count <= axis.output);
  thread_local Cache cache;
  const auto found = cache.axes.find(axis);
  if (found != cache.axes.end()) return found->second;
  auto made = std::make_shared<const AxisWeights>(make_weights(axis));
  if (cache.bytes > kMostWeightsBytes) cache = {};
  cache.bytes +=
      made->weights.size() * sizeof(std::int16_t) + made->start.size() * sizeof(std::int32_t);
  cache.axes.emplace(axis, made);
  return made;
}

}  // namespace trainctl::data
