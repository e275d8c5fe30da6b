#include "data/image/resize_kernels.hpp"

namespace trainctl::data {

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
