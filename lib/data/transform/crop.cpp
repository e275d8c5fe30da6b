#include "data/transform/crop.hpp"

#include "base/error.hpp"
#include "data/core/registry.hpp"
#include "data/image/resize.hpp"
#include "data/transform/parameters.hpp"
#include "spec/options/transform.hpp"

#include <cmath>

namespace trainctl::data {

namespace {

using spec::transform::PaddingMode;

/// Pixels added at both ends of an axis.
struct Added {
  std::int64_t before = 0;
  std::int64_t after = 0;
};

/// Draws top, then left, in the padded image, even if there is only one position.
class PaddedCrop final : public Transform {
 public:
  explicit PaddedCrop(const spec::transform::RandomCrop& options)
      : size_(size_of_options(options.size.values)),
        pad_if_needed_(options.pad_if_needed),
        outside_{options.padding_mode, Fill(options.fill.values)} {
    const std::vector<int>& padding = options.padding.values;
    ENSURE(config, padding.size() == 1 || padding.size() == 2 || padding.size() == 4,
           "padding must have 1, 2 or 4 values, got {}\nhint: set one number for all "
           "sides, [left_and_right, top_and_bottom] or [left, top, right, bottom]",
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

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    check<ErrorKind::data>(input.shape);
    crop_padded(input, window(input.shape, rng), outside_, output);
  }

  [[nodiscard]] std::optional<Paint> paints(const ImageShape&) const override {
    if (outside_.mode == PaddingMode::reflect) return Paint{.reflects = true};
    if (outside_.mode != PaddingMode::constant) return std::nullopt;
    return Paint{.outside = outside_.fill};
  }
  void apply_to_plan(PlannedImage& image, CounterRng& rng) const override {
    const Box box = window(image.shape(), rng);
    outside_.mode == PaddingMode::reflect ? image.crop_reflected(box) : image.crop(box);
  }

 private:
  /// The padding and padded size of an image.
  struct Padded {
    Added rows;
    Added columns;
    std::int64_t height = 0;
    std::int64_t width = 0;
  };
  [[nodiscard]] Padded padded(const ImageShape& image) const {
    const Added rows = added(down_, image.height, size_.height);
    const Added columns = added(across_, image.width, size_.width);
    return {rows, columns, image.height + rows.before + rows.after,
            image.width + columns.before + columns.after};
  }
  [[nodiscard]] Added added(const Added& padding, std::int64_t extent, std::int64_t size) const {
    const std::int64_t missing = size - (extent + padding.before + padding.after);
    if (!pad_if_needed_ || missing <= 0) return padding;
    return {padding.before + missing, padding.after + missing};
  }

  [[nodiscard]] Box window(const ImageShape& image, CounterRng& rng) const {
    const Padded all = padded(image);
    const std::int64_t top = draw_place(all.height, size_.height, rng) - all.rows.before;
    const std::int64_t left = draw_place(all.width, size_.width, rng) - all.columns.before;
    return {top, left, size_.height, size_.width};
  }

  template <ErrorKind kind>
  void check(const ImageShape& image) const {
    const auto [rows, columns, height, width] = padded(image);
    if (size_.height > height || size_.width > width) {
      const bool same = height == image.height && width == image.width;
      throw Error(
          kind,
          fmt::format(
              "a crop of {}x{} pixels does not fit into an image of {}x{}{}\nhint: set size to at "
              "most [{}, {}], set pad_if_needed: true, or resize first",
              size_.height, size_.width, image.height, image.width,
              same ? "" : fmt::format(", padded to {}x{}", height, width), height, width));
    }
    const std::int64_t most = outside_.mode == PaddingMode::reflect ? 1 : 0;
    const bool mirrors =
        outside_.mode == PaddingMode::reflect || outside_.mode == PaddingMode::symmetric;
    if (mirrors && (std::max(rows.before, rows.after) > image.height - most ||
                    std::max(columns.before, columns.after) > image.width - most)) {
      throw Error(
          kind,
          fmt::format("an image of {}x{} pixels is too small to mirror {} rows and {} columns at "
                      "its border\nhint: use less padding, or set padding_mode to edge or constant",
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

/// Reads only the crop, because there is no padding. The draws are the same as in PaddedCrop.
class PlainCrop final : public CropTransform {
 public:
  explicit PlainCrop(const spec::transform::RandomCrop& options)
      : size_(size_of_options(options.size.values)), fitting_(options) {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return fitting_.output(input);
  }
  [[nodiscard]] Box box(const ImageShape& input, CounterRng& rng) const override {
    ENSURE(data, size_.height <= input.height && size_.width <= input.width,
           "a crop of {}x{} pixels does not fit into this image of {}x{}\nhint: set pad_if_needed: "
           "true, or resize first",
           size_.height, size_.width, input.height, input.width);
    const std::int64_t top = draw_place(input.height, size_.height, rng);
    return {top, draw_place(input.width, size_.width, rng), size_.height, size_.width};
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

/// Rounds half to even, like Python's round().
std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

/// Draws area, then ratio, in each of ten attempts; when the crop fits into the image, top, then
/// left.
class RandomResizedCrop final : public CropTransform {
 public:
  explicit RandomResizedCrop(const spec::transform::RandomResizedCrop& options)
      : size_(size_of_options(options.size.values)),
        scale_(options.scale),
        ratio_(options.ratio),
        interpolation_(options.interpolation) {
    ENSURE(config, scale_[0] <= scale_[1], "scale must be [smallest, largest], got [{}, {}]",
           scale_[0], scale_[1]);
    ENSURE(config, ratio_[0] <= ratio_[1], "ratio must be [smallest, largest], got [{}, {}]",
           ratio_[0], ratio_[1]);
    log_ratio_ = {portable_log(ratio_[0]), portable_log(ratio_[1])};
  }

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return {size_.height, size_.width, input.channels};
  }
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
      const std::int64_t top = draw_place(input.height, height, rng);
      return {top, draw_place(input.width, width, rng), height, width};
    }
    return middle(input);
  }

  void apply_to_box(const ImageView& window, const ImageShape&, ImageTarget& output,
                    CounterRng&) const override {
    resize_whole(window, size_, interpolation_, output);
  }

 private:
  /// Returns the largest centered box with an allowed ratio.
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

void register_transform_center_crop(Catalog& catalog) {
  catalog.transforms["center_crop"] = [](const config::Stage& stage) {
    return std::make_shared<const CenterCrop>(
        size_of_options(stage.as<spec::transform::CenterCrop>().size.values));
  };
}

void register_transform_random_crop(Catalog& catalog) {
  catalog.transforms["random_crop"] =
      [](const config::Stage& stage) -> std::shared_ptr<const Transform> {
    const auto& options = stage.as<spec::transform::RandomCrop>();
    const std::vector<int>& padding = options.padding.values;
    const bool pads = options.pad_if_needed ||
                      std::any_of(padding.begin(), padding.end(), [](int p) { return p > 0; });
    if (pads) return std::make_shared<const PaddedCrop>(options);
    return std::make_shared<const PlainCrop>(options);
  };
}

void register_transform_random_resized_crop(Catalog& catalog) {
  catalog.transforms["random_resized_crop"] =
      maker<RandomResizedCrop, spec::transform::RandomResizedCrop>();
}

}  // namespace trainctl::data
