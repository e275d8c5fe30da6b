#include "spec/model/resnet_cifar.hpp"

#include "stages/builtin.hpp"
#include "stages/model/blocks/global_average.hpp"
#include "stages/model/blocks/image_input.hpp"
#include "stages/model/blocks/initialise.hpp"
#include "stages/model/blocks/residual_unit.hpp"

#include <utility>
#include <vector>

namespace trainctl::stages {
namespace {

constexpr std::int64_t kFirstWidth = 16;
constexpr std::size_t kStages = 3;

/// conv1 and bn1, layer1 to layer3, fc: the names and the weights of a seed are those of
/// torchvision's ResNet cut to this shape.
class ResnetCifar final : public LayeredModule {
 public:
  ResnetCifar(const spec::model::ResnetCifar& options, const stage::ModelContext& context) {
    const std::int64_t channels = checked_channels(options, context);
    const Scope scope(*this);
    stem_ = make_conv_norm(scope / "conv1", scope / "bn1",
                           {.conv = {.in = channels, .out = kFirstWidth, .kernel = 3}});
    const auto units = static_cast<std::size_t>((options.depth - 2) / 6);
    for (std::size_t stage = 0; stage < kStages; ++stage) add_stage(options, stage, units);
    fc_ = add_linear("fc", kFirstWidth << (kStages - 1), context.outputs);
    initialise(parameters(), LinearDraw::keep);
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    at::Tensor x = stem_(inputs_nchw, mode());
    return fc_(global_average(through_blocks(units_, std::move(x))));
  }

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  void add_stage(const spec::model::ResnetCifar& options, std::size_t stage, std::size_t units) {
    using spec::model::CifarShortcut;
    const Scope layer = Scope(*this) / ("layer" + std::to_string(stage + 1));
    const std::int64_t width = kFirstWidth << stage;
    const bool grows = stage > 0;
    for (std::size_t i = 0; i < units; ++i) {
      const bool first = grows && i == 0;
      units_.push_back(make_basic_block(
          layer / i,
          {.in = first ? width / 2 : width,
           .width = width,
           .stride = first ? 2 : 1,
           .projection = options.shortcut == CifarShortcut::a ? Projection::padding
                                                              : Projection::convolution}));
    }
  }

  ConvNorm stem_;
  std::vector<ResidualUnit> units_;
  Linear fc_;
};

}  // namespace

void register_model_resnet_cifar(stage::Catalogue& catalogue) {
  catalogue.models.add<spec::model::ResnetCifar>(
      "resnet_cifar", [](const auto& options, const auto& context) {
        return std::make_unique<ResnetCifar>(options, context);
      });
}

}  // namespace trainctl::stages
