#include "data/image/resize.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace trainctl::data {
namespace {

// A load reads up to 16 bytes past the last value in use.
constexpr std::int64_t kRowSlack = 16;

}  // namespace

Box resize_box(const ResizePlan& plan) {
  const auto rows = axis_weights(plan.vertical);
  const auto columns = axis_weights(plan.horizontal);
  return {rows->begin, columns->begin, rows->end - rows->begin, columns->end - columns->begin};
}

void resize(const ImageView& window, const ResizePlan& plan, std::uint8_t* out,
            const ResizeKernels& kernels) {
  const auto vertical = axis_weights(plan.vertical);
  const auto horizontal = axis_weights(plan.horizontal);
  const std::int64_t channels = window.shape.channels;
  ASSERT(window.shape.height == vertical->end - vertical->begin);
  ASSERT(window.shape.width == horizontal->end - horizontal->begin);

  const std::int64_t stride = (window.shape.width + 2 * horizontal->pairs) * channels + kRowSlack;
  thread_local std::vector<std::int16_t> middle;
  middle.assign(static_cast<std::size_t>(stride * kernels.rows), 0);

  std::vector<const std::uint8_t*> rows(2 * static_cast<std::size_t>(vertical->pairs));
  const auto make_row = [&](std::int64_t y, std::int16_t* to) {
    const auto index = static_cast<std::size_t>(y);
    for (std::size_t k = 0; k < rows.size(); ++k) {
      // The weights after the last row are 0.
      const std::int64_t row = vertical->start[index] + static_cast<std::int64_t>(k);
      rows[k] = window.row(std::min(row, window.shape.height - 1));
    }
    kernels.vertical({rows.data(), vertical->weights.data() + index * rows.size(), vertical->pairs,
                      vertical->precision, window.shape.width * channels, to});
  };
  HorizontalJob job;
  job.axis = horizontal.get();
  job.channels = channels;
  job.rows = static_cast<std::size_t>(kernels.rows);
  for (std::int64_t y = 0; y < plan.vertical.count; y += kernels.rows) {
    for (std::int64_t r = 0; r < kernels.rows; ++r) {
      // An incomplete last group repeats its last row.
      const std::int64_t row = std::min(y + r, plan.vertical.count - 1);
      std::int16_t* values = middle.data() + r * stride;
      make_row(row, values);
      job.in[static_cast<std::size_t>(r)] = values;
      job.out[static_cast<std::size_t>(r)] = out + row * plan.horizontal.count * channels;
    }
    kernels.horizontal(job);
  }
}

std::uint64_t resize_scratch_bytes(const ImageShape& input) {
  // Each row is followed by padding for as many pixels as one output pixel depends on.
  const std::int64_t row = 2 * input.width * input.channels + 8 * input.channels + kRowSlack;
  const std::int64_t rows = resize_kernels().back().rows;
  return static_cast<std::uint64_t>(row * rows) * sizeof(std::int16_t) + kMostWeightsBytes;
}

void resize_whole(const ImageView& image, const Extents& size,
                  spec::transform::Interpolation interpolation, ImageTarget& output) {
  const ResizePlan plan{ResizeAxis::whole(image.shape.height, size.height, interpolation),
                        ResizeAxis::whole(image.shape.width, size.width, interpolation)};
  resize(image.window(resize_box(plan)), plan,
         output.resize({size.height, size.width, image.shape.channels}));
}

namespace {

// The largest sum, 255 << kMiddleBits times 2^16, still fits into 32 bits.
constexpr int kMostPrecision = 16;
constexpr std::size_t kWeightSlack = 8;  // a 16-byte load may start at the last weight

/// The triangle filter over the inputs [first, first + weights.size()), positioned as in ATen.
struct Window {
  std::int64_t first = 0;
  std::vector<double> weights;
};

/// Uses float32, as ATen does.
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

/// Rounds the running sum instead of each weight, so that the weights sum to exactly 1.
void quantize(const std::vector<double>& weights, int precision, std::int16_t* out) {
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
  double most = 0;  // over all outputs, so that a partial resize gives the same bytes as a full one
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
  made.weights.resize(windows.size() * stride + kWeightSlack);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    made.start.push_back(static_cast<std::int32_t>(windows[i].first - made.begin));
    quantize(windows[i].weights, made.precision, made.weights.data() + i * stride);
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

void vertical_from(const VerticalJob& job, std::int64_t first) {
  const int shift = job.precision - kMiddleBits;
  for (std::int64_t i = first; i < job.count; ++i) {
    std::int32_t sum = 1 << (shift - 1);
    for (int k = 0; k < 2 * job.pairs; ++k) sum += job.weights[k] * job.rows[k][i];
    job.out[i] = static_cast<std::int16_t>(sum >> shift);
  }
}

void horizontal_from(const HorizontalJob& job, std::int64_t first) {
  const AxisWeights& axis = *job.axis;
  const int shift = axis.precision + kMiddleBits;
  const int taps = 2 * axis.pairs;
  const auto outputs = static_cast<std::int64_t>(axis.start.size());
  for (std::size_t row = 0; row < job.rows; ++row) {
    std::uint8_t* out = job.out[row] + first * job.channels;
    for (std::int64_t x = first; x < outputs; ++x) {
      const std::int16_t* weights = axis.weights.data() + x * taps;
      const std::int16_t* in = job.in[row] + axis.start[static_cast<std::size_t>(x)] * job.channels;
      for (std::int64_t c = 0; c < job.channels; ++c) {
        std::int32_t sum = 1 << (shift - 1);
        for (int k = 0; k < taps; ++k) sum += weights[k] * in[k * job.channels + c];
        *out++ = static_cast<std::uint8_t>(sum >> shift);
      }
    }
  }
}

const ResizeKernels& scalar_resize() {
  static constexpr ResizeKernels kScalar{"scalar", 1,
                                         [](const VerticalJob& job) { vertical_from(job, 0); },
                                         [](const HorizontalJob& job) { horizontal_from(job, 0); }};
  return kScalar;
}

}  // namespace trainctl::data
