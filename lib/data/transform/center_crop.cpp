#include "data/transform/center_crop.hpp"

#include "data/core/registry.hpp"
#include "data/transform/parameters.hpp"
#include "spec/transform/center_crop.hpp"

#include <cstring>

namespace trainctl::data {

Middle middle_of(std::int64_t extent, std::int64_t crop) {
  if (crop > extent) return {0, extent, (crop - extent) / 2};
  const std::int64_t over = extent - crop;
  const std::int64_t half = over / 2;
  return {half + (over % 2) * (half % 2), crop, 0};
}

Box CenterCrop::box(const ImageShape& input, CounterRng&) const {
  const Middle rows = middle_of(input.height, size_.height);
  const Middle columns = middle_of(input.width, size_.width);
  return {rows.first, columns.first, rows.count, columns.count};
}

void CenterCrop::apply_to_box(const ImageView& window, const ImageShape& whole, ImageTarget& output,
                              CounterRng&) const {
  const Middle rows = middle_of(whole.height, size_.height);
  const Middle columns = middle_of(whole.width, size_.width);
  output.resize({size_.height, size_.width, window.shape.channels});
  if (rows.count < size_.height || columns.count < size_.width) {
    std::memset(output.pixels(), 0, output.shape().bytes());
  }
  for (std::int64_t y = 0; y < rows.count; ++y) {
    std::memcpy(output.row(rows.before + y) + columns.before * window.shape.channels, window.row(y),
                window.row_bytes());
  }
}

std::optional<Paint> CenterCrop::paints(const ImageShape& input) const {
  const bool pads = size_.height > input.height || size_.width > input.width;
  return pads ? Paint{.outside = Fill()} : Paint();
}

void CenterCrop::apply_to_plan(PlannedImage& image, CounterRng&) const {
  const Middle rows = middle_of(image.shape().height, size_.height);
  const Middle columns = middle_of(image.shape().width, size_.width);
  image.crop({rows.first - rows.before, columns.first - columns.before, size_.height, size_.width});
}

void register_transform_center_crop(Catalogue& catalogue) {
  catalogue.transforms["center_crop"] = [](const config::Stage& stage) {
    return std::make_shared<const CenterCrop>(
        size_of_options(stage.as<spec::transform::CenterCrop>().size.values));
  };
}

}  // namespace trainctl::data
