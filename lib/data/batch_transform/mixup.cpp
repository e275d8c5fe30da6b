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

}  // namespace

void register_batch_transform_mixup(Catalogue& catalogue) {
  catalogue.batch_transforms["mixup"] = [](const config::Stage& stage) {
    return std::make_shared<const Mixup>(stage.as<spec::batch_transform::Mixup>().alpha);
  };
}

}  // namespace trainctl::data
