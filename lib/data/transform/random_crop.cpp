#include "spec/transform/random_crop.hpp"

#include "base/error.hpp"
#include "data/core/registry.hpp"
#include "data/image/geometry.hpp"
#include "data/transform/parameters.hpp"

#include <algorithm>
#include <array>

namespace trainctl::data {
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

}  // namespace

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

}  // namespace trainctl::data
