#include "data/batch_transform/mixup.hpp"

#include "base/error.hpp"
#include "data/core/registry.hpp"
#include "spec/options/batch_transform.hpp"

#include <cmath>
#include <cstring>

namespace trainctl::data {
namespace {

// RNG keys of sample transforms are their indices in the list; this key is above all of them.
constexpr std::uint16_t kOperation = 0xff00;

}  // namespace

Layout mixed_layout(Layout layout, std::int64_t batch_size) {
  ENSURE(config, find_field(layout, "image") < layout.size(),
         "batch_transforms mix images, but the data set has none\nhint: remove batch_transforms");
  const std::size_t label = find_field(layout, "label");
  ENSURE(config,
         label < layout.size() && layout[label].dtype == Dtype::i64 && layout[label].shape.empty(),
         "batch_transforms mix classes, but the labels of the data set are not classes\nhint: "
         "remove batch_transforms");
  ENSURE(config, batch_size % 2 == 0,
         "batch_transforms need an even batch size, got {}\nhint: set loader.batch_size to {}",
         batch_size,
         batch_size == 1 ? "2" : fmt::format("{} or {}", batch_size - 1, batch_size + 1));
  layout.push_back({"label_b", Dtype::i64, {}});
  layout.push_back({"lambda", Dtype::f32, {}});
  return layout;
}

Mixer::Mixer(std::vector<std::shared_ptr<const BatchTransform>> transforms, std::uint64_t seed,
             const Layout& layout, const std::vector<std::size_t>& offsets)
    : transforms_(std::move(transforms)),
      seed_(seed),
      image_(image_shape(layout[find_field(layout, "image")])),
      image_at_(offsets[find_field(layout, "image")]),
      label_at_(offsets[find_field(layout, "label")]),
      label_b_at_(offsets[find_field(layout, "label_b")]),
      lambda_at_(offsets[find_field(layout, "lambda")]) {}

Mix Mixer::draw(std::int64_t epoch, std::int64_t batch) const {
  CounterRng rng(seed_, static_cast<std::uint32_t>(epoch), static_cast<std::uint64_t>(batch),
                 kOperation);
  return transforms_[rng.below(transforms_.size())]->draw(image_, rng);
}

void Mixer::mix(const Mix& mix, const Pairs& pairs, std::span<std::byte> slot) const {
  const auto row_of = [&](std::size_t field, std::int64_t row, std::size_t bytes) {
    return slot.data() + field + static_cast<std::size_t>(row) * bytes;
  };
  const auto set_label = [&](std::int64_t row, std::int64_t partner, float lambda) {
    std::memcpy(row_of(label_b_at_, row, 8), row_of(label_at_, partner, 8), 8);
    std::memcpy(row_of(lambda_at_, row, 4), &lambda, 4);
  };
  const auto pixels_of = [&](std::int64_t row) {
    return reinterpret_cast<std::uint8_t*>(row_of(image_at_, row, image_.bytes()));
  };
  for (std::int64_t one = pairs.first; one < std::min(pairs.first + pairs.count, pairs.rows);
       ++one) {
    const std::int64_t other = one + pairs.half;
    const bool paired = other < pairs.valid;
    if (paired) mix_images(mix, image_, pixels_of(one), pixels_of(other));
    set_label(one, paired ? other : one, paired ? mix.lambda : 1.0F);
    if (other < pairs.rows) set_label(other, paired ? one : other, paired ? mix.lambda : 1.0F);
  }
}

namespace {

void blend(std::uint16_t own, std::int64_t bytes, std::uint8_t* __restrict one,
           std::uint8_t* __restrict other) {
  const auto rest = static_cast<std::uint16_t>(kMixSteps - own);
  for (std::int64_t i = 0; i < bytes; ++i) {
    // The sum is at most 255 * 256 + 128 and fits into 16 bits.
    const auto a = static_cast<std::uint16_t>(one[i] * own + other[i] * rest + kMixSteps / 2);
    const auto b = static_cast<std::uint16_t>(other[i] * own + one[i] * rest + kMixSteps / 2);
    one[i] = static_cast<std::uint8_t>(a / kMixSteps);
    other[i] = static_cast<std::uint8_t>(b / kMixSteps);
  }
}

}  // namespace

Box cutmix_box(double lambda, std::int64_t x, std::int64_t y, const ImageShape& image) {
  const double half = 0.5 * std::sqrt(1 - lambda);
  const auto across = static_cast<std::int64_t>(half * static_cast<double>(image.width));
  const auto down = static_cast<std::int64_t>(half * static_cast<double>(image.height));
  const std::int64_t left = std::max<std::int64_t>(x - across, 0);
  const std::int64_t top = std::max<std::int64_t>(y - down, 0);
  return {top, left, std::min(y + down, image.height) - top,
          std::min(x + across, image.width) - left};
}

void mix_images(const Mix& mix, const ImageShape& image, std::uint8_t* one, std::uint8_t* other) {
  if (mix.own != kMixSteps) {
    blend(static_cast<std::uint16_t>(mix.own), static_cast<std::int64_t>(image.bytes()), one,
          other);
  }
  const std::int64_t bytes = mix.swapped.width * image.channels;
  for (std::int64_t y = mix.swapped.top; y < mix.swapped.top + mix.swapped.height; ++y) {
    const std::int64_t at = (y * image.width + mix.swapped.left) * image.channels;
    std::swap_ranges(one + at, one + at + bytes, other + at);
  }
}

// Best (1978), as in Devroye, "Random variate generation in one line of code" (1996), without
// rejection.
double draw_beta(CounterRng& rng, double alpha) {
  const double u = (static_cast<double>(rng.next_u32()) + 0.5) * 0x1p-32;  // never 0
  const double cos = sin_cos_degrees(360 * static_cast<double>(rng.uniform())).cos;
  const double stretch = portable_exp(std::min(-portable_log(u) / alpha, 700.0)) - 1;
  const double away = 0.5 / std::sqrt(1 + 1 / (stretch * cos * cos));
  return rng.coin(0.5) ? 0.5 + away : 0.5 - away;
}

namespace {

/// Draws lambda and rounds it to a multiple of 1/256. Pixels and labels both use the rounded value.
class Mixup final : public BatchTransform {
 public:
  explicit Mixup(const spec::batch_transform::Mixup& options) : alpha_(options.alpha) {}

  [[nodiscard]] Mix draw(const ImageShape&, CounterRng& rng) const override {
    Mix mix;
    mix.own = static_cast<int>(std::lrint(draw_beta(rng, alpha_) * kMixSteps));
    mix.lambda = static_cast<float>(mix.own) / kMixSteps;
    return mix;
  }

 private:
  double alpha_;
};

/// Draws lambda, then the column and the row of the box center. The label weight is the share of
/// the image that remains after the box is clipped.
class Cutmix final : public BatchTransform {
 public:
  explicit Cutmix(const spec::batch_transform::Cutmix& options) : alpha_(options.alpha) {}

  [[nodiscard]] Mix draw(const ImageShape& image, CounterRng& rng) const override {
    const double lambda = draw_beta(rng, alpha_);
    const auto x = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(image.width)));
    const auto y = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(image.height)));
    Mix mix;
    mix.swapped = cutmix_box(lambda, x, y, image);
    const auto area = static_cast<double>(mix.swapped.height * mix.swapped.width);
    mix.lambda = static_cast<float>(1 - area / static_cast<double>(image.height * image.width));
    return mix;
  }

 private:
  double alpha_;
};

}  // namespace

void register_batch_transform_mixup(Catalog& catalog) {
  catalog.batch_transforms["mixup"] = maker<Mixup, spec::batch_transform::Mixup>();
}

void register_batch_transform_cutmix(Catalog& catalog) {
  catalog.batch_transforms["cutmix"] = maker<Cutmix, spec::batch_transform::Cutmix>();
}

}  // namespace trainctl::data
