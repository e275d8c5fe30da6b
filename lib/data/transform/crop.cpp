#include "data/transform/crop.hpp"

#include "base/error.hpp"
#include "base/random.hpp"
#include "data/core/registry.hpp"
#include "data/image/geometry.hpp"
#include "data/image/resize.hpp"
#include "data/transform/parameters.hpp"
#include "spec/transform/crop.hpp"

#include <algorithm>
#include <array>
#include <cmath>
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

namespace {

using spec::transform::PaddingMode;

/// Pixels added at the two ends of one axis.
struct Added {
  std::int64_t before = 0;
  std::int64_t after = 0;
};

/// Places of a crop along one axis, counted from the first; one of them is drawn.
std::int64_t place(std::int64_t padded, std::int64_t size, CounterRng& rng) {
  return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(padded - size + 1)));
}

/// Draws: top, then left, in places of the padded image; where there is one place only, they are
/// drawn all the same.
class PaddedCrop final : public Transform {
 public:
  explicit PaddedCrop(const spec::transform::RandomCrop& options)
      : size_(size_of_options(options.size.values)),
        pad_if_needed_(options.pad_if_needed),
        outside_{options.padding_mode, Fill(options.fill.values)} {
    const std::vector<int>& padding = options.padding.values;
    ENSURE(config, padding.size() == 1 || padding.size() == 2 || padding.size() == 4,
           "padding has {} values; give 1, or 2: [left and right, top and bottom], or 4: [left, "
           "top, right, bottom]",
           padding.size());
    across_ = {padding[0], padding[padding.size() == 4 ? 2 : 0]};
    down_ = {padding[padding.size() == 1 ? 0 : 1],
             padding[padding.size() == 4 ? 3 : padding.size() - 1]};
  }

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    outside_.fill.check(input.channels);
    if (input.fixed()) check<ErrorKind::config>(input);
    return {size_.height, size_.width, input.channels};
  }

  [[nodiscard]] bool random() const override { return true; }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    check<ErrorKind::data>(input.shape);
    crop_padded(input, window(input.shape, rng), outside_, output);
  }

  [[nodiscard]] std::optional<Paint> paints(const ImageShape&) const override {
    if (outside_.mode != PaddingMode::constant) return std::nullopt;
    return Paint{.outside = outside_.fill};
  }
  void apply_to_plan(PlannedImage& image, CounterRng& rng) const override {
    image.crop(window(image.shape(), rng));
  }

 private:
  [[nodiscard]] Box window(const ImageShape& image, CounterRng& rng) const {
    const Added rows = added(down_, image.height, size_.height);
    const Added columns = added(across_, image.width, size_.width);
    const std::int64_t top =
        place(image.height + rows.before + rows.after, size_.height, rng) - rows.before;
    const std::int64_t left =
        place(image.width + columns.before + columns.after, size_.width, rng) - columns.before;
    return {top, left, size_.height, size_.width};
  }

  [[nodiscard]] Added added(const Added& padding, std::int64_t extent, std::int64_t size) const {
    const std::int64_t missing = size - (extent + padding.before + padding.after);
    if (!pad_if_needed_ || missing <= 0) return padding;
    return {padding.before + missing, padding.after + missing};
  }

  template <ErrorKind kind>
  void check(const ImageShape& image) const {
    const Added rows = added(down_, image.height, size_.height);
    const Added columns = added(across_, image.width, size_.width);
    const std::int64_t height = image.height + rows.before + rows.after;
    const std::int64_t width = image.width + columns.before + columns.after;
    if (size_.height > height || size_.width > width) {
      throw Error(
          kind,
          fmt::format(
              "a crop of {}x{} pixels does not fit into an image of {}x{}, padded to {}x{}; set "
              "size to at most [{}, {}], or pad_if_needed: true, or resize first",
              size_.height, size_.width, image.height, image.width, height, width, height, width));
    }
    const std::int64_t most = outside_.mode == PaddingMode::reflect ? 1 : 0;
    const bool mirrors =
        outside_.mode == PaddingMode::reflect || outside_.mode == PaddingMode::symmetric;
    if (mirrors && (std::max(rows.before, rows.after) > image.height - most ||
                    std::max(columns.before, columns.after) > image.width - most)) {
      throw Error(
          kind,
          fmt::format(
              "an image of {}x{} cannot be mirrored by {} and {} pixels at its rows and columns; "
              "pad less, or set padding_mode to edge or constant",
              image.height, image.width, std::max(rows.before, rows.after),
              std::max(columns.before, columns.after)));
    }
  }

  Extents size_;
  Added across_;
  Added down_;
  bool pad_if_needed_;
  Outside outside_;
};

/// Without padding only the crop itself is read. The draws are those of PaddedCrop.
class PlainCrop final : public CropTransform {
 public:
  explicit PlainCrop(const spec::transform::RandomCrop& options)
      : size_(size_of_options(options.size.values)), fitting_(options) {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return fitting_.output(input);
  }
  [[nodiscard]] bool random() const override { return true; }

  [[nodiscard]] Box box(const ImageShape& input, CounterRng& rng) const override {
    ENSURE(data, size_.height <= input.height && size_.width <= input.width,
           "a crop of {}x{} pixels does not fit into this image of {}x{}; set pad_if_needed: true, "
           "or resize first",
           size_.height, size_.width, input.height, input.width);
    const std::int64_t top = place(input.height, size_.height, rng);
    return {top, place(input.width, size_.width, rng), size_.height, size_.width};
  }

  void apply_to_box(const ImageView& window, const ImageShape&, ImageTarget& output,
                    CounterRng&) const override {
    output.copy(window);
  }

  [[nodiscard]] std::optional<Paint> paints(const ImageShape&) const override { return Paint(); }
  void apply_to_plan(PlannedImage& image, CounterRng& rng) const override {
    image.crop(box(image.shape(), rng));
  }

 private:
  Extents size_;
  PaddedCrop fitting_;
};

constexpr int kCropAttempts = 10;

/// Halves go to the even number, as Python's round().
std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

/// Draws, in each of ten attempts: area, then ratio; where the part fits into the image: top, then
/// left.
class RandomResizedCrop final : public CropTransform {
 public:
  explicit RandomResizedCrop(const spec::transform::RandomResizedCrop& options)
      : size_(size_of_options(options.size.values)),
        scale_(options.scale),
        ratio_(options.ratio),
        interpolation_(options.interpolation) {
    ENSURE(config, scale_[0] <= scale_[1], "scale is [{}, {}]; write the smaller number first",
           scale_[0], scale_[1]);
    ENSURE(config, ratio_[0] <= ratio_[1], "ratio is [{}, {}]; write the smaller number first",
           ratio_[0], ratio_[1]);
    log_ratio_ = {portable_log(ratio_[0]), portable_log(ratio_[1])};
  }

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return {size_.height, size_.width, input.channels};
  }
  [[nodiscard]] bool random() const override { return true; }
  [[nodiscard]] std::uint64_t scratch_bytes(const ImageShape& input) const override {
    return resize_scratch_bytes(input);
  }

  [[nodiscard]] Box box(const ImageShape& input, CounterRng& rng) const override {
    const auto area = static_cast<double>(input.height * input.width);
    for (int attempt = 0; attempt < kCropAttempts; ++attempt) {
      const double part = area * draw_between(rng, scale_[0], scale_[1]);
      const double ratio = portable_exp(draw_between(rng, log_ratio_[0], log_ratio_[1]));
      const std::int64_t width = rounded(std::sqrt(part * ratio));
      const std::int64_t height = rounded(std::sqrt(part / ratio));
      if (width < 1 || width > input.width || height < 1 || height > input.height) continue;
      const auto top = static_cast<std::int64_t>(
          rng.below(static_cast<std::uint64_t>(input.height - height + 1)));
      const auto left =
          static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(input.width - width + 1)));
      return {top, left, height, width};
    }
    return middle(input);
  }

  void apply_to_box(const ImageView& window, const ImageShape&, ImageTarget& output,
                    CounterRng&) const override {
    const ResizePlan plan{ResizeAxis::whole(window.shape.height, size_.height, interpolation_),
                          ResizeAxis::whole(window.shape.width, size_.width, interpolation_)};
    resize(window.window(resize_box(plan)), plan,
           output.resize({size_.height, size_.width, window.shape.channels}));
  }

 private:
  /// The largest part in the middle whose ratio is allowed.
  [[nodiscard]] Box middle(const ImageShape& input) const {
    const auto height = static_cast<double>(input.height);
    const auto width = static_cast<double>(input.width);
    Box box{0, 0, input.height, input.width};
    if (width / height < ratio_[0])
      box.height = std::max<std::int64_t>(1, rounded(width / ratio_[0]));
    if (width / height > ratio_[1])
      box.width = std::max<std::int64_t>(1, rounded(height * ratio_[1]));
    box.top = (input.height - box.height) / 2;
    box.left = (input.width - box.width) / 2;
    return box;
  }

  Extents size_;
  std::array<double, 2> scale_;
  std::array<double, 2> ratio_;
  spec::transform::Interpolation interpolation_;
  std::array<double, 2> log_ratio_{};
};

}  // namespace

void register_transform_center_crop(Catalogue& catalogue) {
  catalogue.transforms["center_crop"] = [](const config::Stage& stage) {
    return std::make_shared<const CenterCrop>(
        size_of_options(stage.as<spec::transform::CenterCrop>().size.values));
  };
}

void register_transform_random_crop(Catalogue& catalogue) {
  catalogue.transforms["random_crop"] =
      [](const config::Stage& stage) -> std::shared_ptr<const Transform> {
    const auto& options = stage.as<spec::transform::RandomCrop>();
    const std::vector<int>& padding = options.padding.values;
    const bool pads = options.pad_if_needed ||
                      std::any_of(padding.begin(), padding.end(), [](int p) { return p > 0; });
    if (pads) return std::make_shared<const PaddedCrop>(options);
    return std::make_shared<const PlainCrop>(options);
  };
}

void register_transform_random_resized_crop(Catalogue& catalogue) {
  catalogue.transforms["random_resized_crop"] = [](const config::Stage& stage) {
    return std::make_shared<const RandomResizedCrop>(
        stage.as<spec::transform::RandomResizedCrop>());
  };
}

}  // namespace trainctl::data
