#include "data/core/transform.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace trainctl::data {

void Transform::apply_to_plan(PlannedImage&, CounterRng&) const {
  ASSERT(!"planned without paints()");
}

namespace {

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

void crop_axis(PlannedAxis& axis, std::int64_t offset, std::int64_t extent) {
  const auto moved = [&](std::int32_t at) {
    return narrow(std::clamp<std::int64_t>(at - offset, 0, extent));
  };
  axis.first += narrow(offset) * axis.step;
  axis.begin = moved(axis.begin);
  axis.end = moved(axis.end);
  axis.erased_begin = moved(axis.erased_begin);
  axis.erased_end = moved(axis.erased_end);
}

void mirror_axis(PlannedAxis& axis, std::int64_t extent) {
  const std::int32_t all = narrow(extent);
  axis.first += (all - 1) * axis.step;
  axis.step = -axis.step;
  axis.begin = all - std::exchange(axis.end, all - axis.begin);
  axis.erased_begin = all - std::exchange(axis.erased_end, all - axis.erased_begin);
}

}  // namespace

PlannedImage::PlannedImage(const ImageShape& source) : shape_(source) {
  ASSERT(source.fixed());
  plan_.rows.end = narrow(source.height);
  plan_.columns.end = narrow(source.width);
}

void PlannedImage::crop(const Box& window) {
  crop_axis(plan_.rows, window.top, window.height);
  crop_axis(plan_.columns, window.left, window.width);
  shape_.height = window.height;
  shape_.width = window.width;
}

void PlannedImage::crop_reflected(const Box& window) {
  crop(window);
  plan_.rows.begin = plan_.columns.begin = 0;
  plan_.rows.end = narrow(window.height);
  plan_.columns.end = narrow(window.width);
}

void PlannedImage::mirror_columns() { mirror_axis(plan_.columns, shape_.width); }

void PlannedImage::mirror_rows() { mirror_axis(plan_.rows, shape_.height); }

void PlannedImage::erase(const Box& box) {
  ASSERT(plan_.rows.erased_begin == plan_.rows.erased_end ||
         plan_.columns.erased_begin == plan_.columns.erased_end);
  plan_.rows.erased_begin = narrow(box.top);
  plan_.rows.erased_end = narrow(box.top + box.height);
  plan_.columns.erased_begin = narrow(box.left);
  plan_.columns.erased_end = narrow(box.left + box.width);
}

PixelPlan PlannedImage::plan(std::int64_t sample) const {
  PixelPlan plan = plan_;
  plan.sample = sample;
  return plan;
}

}  // namespace trainctl::data
