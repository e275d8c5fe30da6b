#include "data/image/resize.hpp"

#include "base/error.hpp"
#include "data/core/registry.hpp"
#include "data/transform/crop.hpp"
#include "data/transform/parameters.hpp"
#include "spec/options/transform.hpp"

namespace trainctl::data {
namespace {

/// Computes the size of a resized image.
class ResizedSize {
 public:
  explicit ResizedSize(const spec::transform::Resize& options)
      : interpolation(options.interpolation),
        size_(size_of_options(options.size.values)),
        keeps_shape_(options.size.values.size() == 1) {
    if (!options.max_size) return;
    longest_ = *options.max_size;
    ENSURE(config, keeps_shape_,
           "max_size requires that size is one number, the length of the shorter side");
    ENSURE(config, *longest_ > size_.height, "max_size must be larger than size, got {} and {}",
           *longest_, size_.height);
  }

  /// Returns whether all images get the same size.
  [[nodiscard]] bool fixed() const { return !keeps_shape_; }

  [[nodiscard]] Extents of(const ImageShape& input) const {
    if (!keeps_shape_) return size_;
    const bool wide = input.width > input.height;
    const std::int64_t short_side = wide ? input.height : input.width;
    const std::int64_t long_side = wide ? input.width : input.height;
    std::int64_t shorter = size_.height;
    std::int64_t longer = shorter * long_side / short_side;
    if (longest_ && longer > *longest_) {
      shorter = *longest_ * shorter / longer;
      longer = *longest_;
    }
    ENSURE(data, shorter > 0 && longer <= kMostPixels / shorter,
           "an image of {}x{} pixels would become {}x{}, which is {}\nhint: remove the image, or "
           "set size to [height, width]",
           input.width, input.height, wide ? longer : shorter, wide ? shorter : longer,
           shorter > 0 ? fmt::format("more than the limit of {} pixels", kMostPixels) : "empty");
    return wide ? Extents{shorter, longer} : Extents{longer, shorter};
  }

  spec::transform::Interpolation interpolation;

 private:
  Extents size_;
  bool keeps_shape_;
  std::optional<std::int64_t> longest_;
};

/// A resize followed by a center crop. It decodes and computes only the cropped region.
class ResizeCenterCrop final : public CropTransform {
 public:
  ResizeCenterCrop(const ResizedSize& size, const CenterCrop& crop) : size_(size), crop_(crop) {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return crop_.output(input);
  }
  [[nodiscard]] bool random() const override { return false; }
  /// Includes the resized part, which is needed when the crop pads the image.
  [[nodiscard]] std::uint64_t scratch_bytes(const ImageShape& input) const override {
    return resize_scratch_bytes(input) + output(input).bytes();
  }

  [[nodiscard]] Box box(const ImageShape& input, CounterRng& rng) const override {
    return resize_box(plan(input, size_.of(input), rng));
  }

  void apply_to_box(const ImageView& window, const ImageShape& whole, ImageTarget& output,
                    CounterRng& rng) const override {
    const Extents size = size_.of(whole);
    const ResizePlan wanted = plan(whole, size, rng);
    const ImageShape part{wanted.vertical.count, wanted.horizontal.count, whole.channels};
    const ImageShape all = crop_.output(whole);
    if (part == all) return resize(window, wanted, output.resize(all));
    thread_local std::vector<std::uint8_t> scratch;
    ImageTarget middle(scratch);
    resize(window, wanted, middle.resize(part));
    crop_.apply_to_box(middle.view(), {size.height, size.width, whole.channels}, output, rng);
  }

 private:
  [[nodiscard]] ResizePlan plan(const ImageShape& input, const Extents& size,
                                CounterRng& rng) const {
    const Box middle = crop_.box({size.height, size.width, input.channels}, rng);
    return {{input.height, size.height, middle.top, middle.height, size_.interpolation},
            {input.width, size.width, middle.left, middle.width, size_.interpolation}};
  }

  ResizedSize size_;
  CenterCrop crop_;
};

class Resize final : public Transform {
 public:
  explicit Resize(const spec::transform::Resize& options) : size_(options) {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    if (!input.fixed() && !size_.fixed()) return {0, 0, input.channels};
    const Extents size = size_.of(input);
    return {size.height, size.width, input.channels};
  }
  [[nodiscard]] bool random() const override { return false; }
  [[nodiscard]] std::uint64_t scratch_bytes(const ImageShape& input) const override {
    return resize_scratch_bytes(input);
  }

  void apply(const ImageView& input, ImageTarget& output, CounterRng&) const override {
    resize_whole(input, size_.of(input.shape), size_.interpolation, output);
  }

  [[nodiscard]] std::shared_ptr<const Transform> then(const Transform& next) const override {
    const auto* crop = dynamic_cast<const CenterCrop*>(&next);
    return crop == nullptr ? nullptr : std::make_shared<const ResizeCenterCrop>(size_, *crop);
  }

 private:
  ResizedSize size_;
};

}  // namespace

void register_transform_resize(Catalog& catalog) {
  catalog.transforms["resize"] = maker<Resize, spec::transform::Resize>();
}

}  // namespace trainctl::data
