#include "data/transform/joint.hpp"

#include "base/error.hpp"
#include "data/core/parallel.hpp"
#include "data/transform/crop.hpp"
#include "data/transform/parameters.hpp"
#include "spec/options/transform.hpp"
#include "spec/sample.hpp"

#include <algorithm>

namespace trainctl::data {
namespace {

/// Copies channels `first` to `first` + `count` - 1 of each pixel.
void split_channels(const ImageView& from, std::int64_t first, std::int64_t count,
                    ImageTarget& to) {
  std::uint8_t* out = to.resize({from.shape.height, from.shape.width, count});
  for (std::int64_t y = 0; y < from.shape.height; ++y) {
    const std::uint8_t* pixel = from.row(y) + first;
    for (std::int64_t x = 0; x < from.shape.width; ++x, pixel += from.shape.channels)
      out = std::copy_n(pixel, count, out);
  }
}

void join_channels(const ImageView& image, const ImageView& mask, ImageTarget& to) {
  const std::int64_t channels = image.shape.channels;
  std::uint8_t* out = to.resize({image.shape.height, image.shape.width, channels + 1});
  for (std::int64_t y = 0; y < image.shape.height; ++y) {
    const std::uint8_t* pixel = image.row(y);
    const std::uint8_t* label = mask.row(y);
    for (std::int64_t x = 0; x < image.shape.width; ++x, pixel += channels) {
      out = std::copy_n(pixel, channels, out);
      *out++ = label[x];
    }
  }
}

ImageShape without_mask(ImageShape shape) {
  --shape.channels;
  return shape;
}

ImageShape with_mask(ImageShape shape) {
  ++shape.channels;
  return shape;
}

class JointTransform final : public Transform {
 public:
  JointTransform(std::shared_ptr<const Transform> image, std::shared_ptr<const Transform> mask)
      : image_(std::move(image)), mask_(std::move(mask)) {}

  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return with_mask(image_->output(without_mask(input)));
  }
  [[nodiscard]] ImageShape largest(const ImageShape& input) const override {
    return with_mask(image_->largest(without_mask(input)));
  }
  [[nodiscard]] bool random() const override { return image_->random(); }
  [[nodiscard]] bool alternates() const override { return image_->alternates(); }
  [[nodiscard]] std::uint64_t scratch_bytes(const ImageShape& input) const override {
    return image_->scratch_bytes(without_mask(input)) + input.bytes() + largest(input).bytes();
  }

  void apply(const ImageView& input, ImageTarget& output, CounterRng& rng) const override {
    Pool<Workspace>::Lease work(pool_);
    ImageTarget image(work->image), mask(work->mask), out(work->out), mask_out(work->mask_out);
    split_channels(input, 0, input.shape.channels - 1, image);
    split_channels(input, input.shape.channels - 1, 1, mask);
    CounterRng again = rng;  // the mask gets the same draws
    image_->apply(image.view(), out, rng);
    if (mask_) mask_->apply(mask.view(), mask_out, again);
    join_channels(out.view(), mask_ ? mask_out.view() : mask.view(), output);
  }

 private:
  struct Workspace {
    std::vector<std::uint8_t> image, mask, out, mask_out;
  };

  std::shared_ptr<const Transform> image_;
  std::shared_ptr<const Transform> mask_;  // null: does not move pixels
  mutable Pool<Workspace> pool_;
};

template <class... Options>
bool is_one_of(const config::Stage& stage) {
  return ((stage.get_if<Options>() != nullptr) || ...);
}

template <class Options>
void set_for_masks(const config::Stage& stage, config::Stage& mask) {
  const auto* found = stage.get_if<Options>();
  if (found == nullptr) return;
  Options own = *found;
  if constexpr (requires { own.interpolation; })
    own.interpolation = spec::transform::Interpolation::nearest;
  if constexpr (requires { own.fill; }) own.fill.values = {spec::kIgnoredPixel};
  mask = config::make_stage(stage.kind, stage.type, std::move(own));
}

/// Returns the transform for masks; empty if the stage does not move pixels.
template <class... Options>
config::Stage for_masks(const config::Stage& stage) {
  config::Stage mask;
  (set_for_masks<Options>(stage, mask), ...);
  return mask;
}

}  // namespace

std::shared_ptr<const Transform> joint_transform(
    const config::Stage& stage,
    const std::function<std::shared_ptr<const Transform>(const config::Stage&)>& make) {
  if (const auto* crop = stage.get_if<spec::transform::CenterCrop>())
    return std::make_shared<const JointTransform>(
        make(stage), std::make_shared<const CenterCrop>(size_of_options(crop->size.values),
                                                        spec::kIgnoredPixel));
  const config::Stage mask =
      for_masks<spec::transform::Resize, spec::transform::RandomCrop,
                spec::transform::RandomResizedCrop, spec::transform::RandomAffine,
                spec::transform::RandomRotation, spec::transform::RandomPerspective,
                spec::transform::RandomHorizontalFlip, spec::transform::RandomVerticalFlip>(stage);
  const bool keeps_places =
      is_one_of<spec::transform::ColorJitter, spec::transform::GaussianBlur,
                spec::transform::RandomGrayscale, spec::transform::RandomInvert,
                spec::transform::RandomErasing>(stage);
  ENSURE(config, mask || keeps_places,
         "'{}' cannot transform masks together with their images\nhint: use the transforms that it "
         "consists of, such as random_affine and color_jitter",
         stage.type);
  return std::make_shared<const JointTransform>(make(stage), mask ? make(mask) : nullptr);
}

}  // namespace trainctl::data
