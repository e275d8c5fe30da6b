#include "data/image/resize.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <vector>

namespace trainctl::data {
namespace {

// A load reads up to 16 bytes behind the last value that counts.
constexpr std::int64_t kSlack = 16;

/// The vertical pass of one output row.
class Column {
 public:
  Column(const ImageView& window, const AxisWeights& axis, const ResizeKernels& kernels)
      : window_(window),
        axis_(axis),
        kernels_(kernels),
        rows_(2 * static_cast<std::size_t>(axis.pairs)) {}

  void make(std::int64_t y, std::int16_t* out) {
    const auto index = static_cast<std::size_t>(y);
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      // The weights behind the last row are 0.
      const std::int64_t row = axis_.start[index] + static_cast<std::int64_t>(k);
      rows_[k] = window_.row(std::min(row, window_.shape.height - 1));
    }
    kernels_.vertical({rows_.data(), axis_.weights.data() + index * rows_.size(), axis_.pairs,
                       axis_.precision, window_.shape.width * window_.shape.channels, out});
  }

 private:
  const ImageView& window_;
  const AxisWeights& axis_;
  const ResizeKernels& kernels_;
  std::vector<const std::uint8_t*> rows_;
};

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

  const std::int64_t stride = (window.shape.width + 2 * horizontal->pairs) * channels + kSlack;
  thread_local std::vector<std::int16_t> middle;
  middle.assign(static_cast<std::size_t>(stride * kernels.rows), 0);

  Column column(window, *vertical, kernels);
  HorizontalJob job;
  job.axis = horizontal.get();
  job.channels = channels;
  job.rows = static_cast<std::size_t>(kernels.rows);
  for (std::int64_t y = 0; y < plan.vertical.count; y += kernels.rows) {
    for (std::int64_t r = 0; r < kernels.rows; ++r) {
      // Where the last group is not full, its last row is made twice.
      const std::int64_t row = std::min(y + r, plan.vertical.count - 1);
      std::int16_t* values = middle.data() + r * stride;
      column.make(row, values);
      job.in[static_cast<std::size_t>(r)] = values;
      job.out[static_cast<std::size_t>(r)] = out + row * plan.horizontal.count * channels;
    }
    kernels.horizontal(job);
  }
}

std::uint64_t resize_scratch_bytes(const ImageShape& input) {
  // Behind each row come weights for as many pixels as one output pixel is made of.
  const std::int64_t row = 2 * input.width * input.channels + 8 * input.channels + kSlack;
  const std::int64_t rows = resize_kernels().back().rows;
  return static_cast<std::uint64_t>(row * rows) * sizeof(std::int16_t) + kMostWeightsBytes;
}

void resize(const ImageView& window, const ResizePlan& plan, std::uint8_t* out) {
  resize(window, plan, out, resize_kernels().back());
}

}  // namespace trainctl::data
