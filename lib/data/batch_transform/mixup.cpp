#include "spec/batch_transform/mixup.hpp"

#include "data/batch_transform/mixer.hpp"
#include "data/core/registry.hpp"

#include <cmath>

namespace trainctl::data {
namespace {

/// Draws: lambda, rounded to a 256th, which is what pixels and labels get.
class Mixup final : public BatchTransform {
 public:
  explicit Mixup(double alpha) : alpha_(alpha) {}

  [[nodiscard]] Mix draw(const ImageShape&, CounterRng& rng) const override {
    Mix mix;
    mix.own = static_cast<int>(std::lrint(draw_beta(rng, alpha_) * kMixSteps));
    mix.lambda = static_cast<float>(mix.own) / kMixSteps;
    return mix;
  }

 private:
  double alpha_;
};

/// Draws: lambda; then the column and the row of the box's middle. The labels get the share that is
/// left of the image.
class Cutmix final : public BatchTransform {
 public:
  explicit Cutmix(double alpha) : alpha_(alpha) {}

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

void register_batch_transform_mixup(Catalogue& catalogue) {
  catalogue.batch_transforms["mixup"] = [](const config::Stage& stage) {
    return std::make_shared<const Mixup>(stage.as<spec::batch_transform::Mixup>().alpha);
  };
}

void register_batch_transform_cutmix(Catalogue& catalogue) {
  catalogue.batch_transforms["cutmix"] = [](const config::Stage& stage) {
    return std::make_shared<const Cutmix>(stage.as<spec::batch_transform::Cutmix>().alpha);
  };
}

}  // namespace trainctl::data
