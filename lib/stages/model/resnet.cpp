#include "stages/model/resnet.hpp"

#include "stages/model/blocks/global_average.hpp"
#include "stages/model/blocks/image_input.hpp"
#include "stages/model/blocks/initialise.hpp"
#include "stages/model/blocks/residual_unit.hpp"

#include <ATen/ops/max_pool2d.h>

#include <utility>
#include <vector>

namespace trainctl::stages {
namespace {

constexpr std::int64_t kFirstWidth = 64;

/// conv1 and bn1, pooling, layer1 to layer4, fc.
class Resnet final : public LayeredModule {
 public:
  Resnet(const ResnetPlan& plan, const spec::model::Resnet& options,
         const stage::ModelContext& context) {
    const std::int64_t channels = checked_channels(options, context);
    const Scope scope(*this);
    stem_ =
        make_conv_norm(scope / "conv1", scope / "bn1",
                       {.conv = {.in = channels, .out = kFirstWidth, .kernel = 7, .stride = 2}});
    std::int64_t in = kFirstWidth;
    for (std::size_t stage = 0; stage < plan.depths.size(); ++stage)
      in = add_stage(plan, options, stage, in);
    fc_ = add_linear("fc", in, context.outputs);
    initialise(parameters(), LinearDraw::keep);
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    at::Tensor x = at::max_pool2d(stem_(inputs_nchw, mode()), {3, 3}, {2, 2}, {1, 1});
    return fc_(global_average(through_blocks(units_, std::move(x))));
  }

 protected:
  [[nodiscard]] bool has_blocks() const override { return true; }

 private:
  /// Returns the channels behind it.
  std::int64_t add_stage(const ResnetPlan& plan, const spec::model::Resnet& options,
                         std::size_t stage, std::int64_t in) {
    const Scope layer = Scope(*this) / ("layer" + std::to_string(stage + 1));
    const bool bottleneck = plan.kind == ResidualKind::bottleneck;
    ResidualPlan unit{.in = in,
                      .width = kFirstWidth << stage,
                      .stride = stage == 0 ? 1 : 2,
                      .squeeze_ratio = plan.squeeze_ratio,
                      .last_norm = options.zero_init_residual ? LastNorm::zeros : LastNorm::ones};
    const std::int64_t out = bottleneck ? unit.width * kBottleneckExpansion : unit.width;
    for (std::size_t i = 0; i < static_cast<std::size_t>(plan.depths[stage]); ++i) {
      units_.push_back(bottleneck ? make_bottleneck(layer / i, unit)
                                  : make_basic_block(layer / i, unit));
      unit.in = out;
      unit.stride = 1;
    }
    return out;
  }

  ConvNorm stem_;
  std::vector<ResidualUnit> units_;
  Linear fc_;
};

}  // namespace

std::unique_ptr<stage::Model> make_resnet(const ResnetPlan& plan,
                                          const spec::model::Resnet& options,
                                          const stage::ModelContext& context) {
  return std::make_unique<Resnet>(plan, options, context);
}

}  // namespace trainctl::stages
