#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/conv_blocks.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/leaky_relu.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

// The parameters have the names of github.com/pytorch/examples, whose lists of layers also count
// the activations.

namespace trainctl::stages {
namespace {

/// Draws weights with mean 0, or 1 after a normalization, and a deviation of 0.02, in the order of
/// the parameters.
void redraw_dcgan(const std::vector<stage::NamedTensor>& parameters) {
  constexpr double kDeviation = 0.02;
  const at::NoGradGuard guard;
  for (const auto& [name, tensor] : parameters) {
    const bool of_norm = tensor.dim() == 1;
    if (name.ends_with("weight")) tensor.normal_(of_norm ? 1 : 0, kDeviation);
  }
}

class DcganGenerator final : public LayeredModule {
 public:
  DcganGenerator(const spec::model::DcganGenerator& options, const stage::ModelContext& context) {
    check_input(options, context);
    const auto pyramid = spec::model::dcgan_pyramid(context.output_shape).value();
    const Scope main = Scope(*this) / "main";
    std::int64_t in = checked_features(context);
    std::int64_t out = options.channels << (pyramid.doublings - 1);
    Conv2dShape shape{.in = in, .out = out, .kernel = pyramid.smallest, .padding = 0};
    for (std::size_t i = 0; i <= static_cast<std::size_t>(pyramid.doublings); ++i) {
      layers_.push_back(make_conv_transpose2d(main / (3 * i), shape));
      const bool is_last = i == static_cast<std::size_t>(pyramid.doublings);
      if (!is_last) norms_.push_back(make_batch_norm2d(main / (3 * i + 1), out));
      in = std::exchange(out, i + 1 < static_cast<std::size_t>(pyramid.doublings)
                                  ? out / 2
                                  : context.output_shape[0]);
      shape = {.in = in, .out = out, .kernel = 4, .stride = 2, .padding = 1};
    }
    redraw_dcgan(parameters());
  }

  /// `inputs` is [N, numbers]. Returns images with values from -1 to 1.
  at::Tensor forward(const at::Tensor& inputs) override {
    at::Tensor x = inputs.flatten(1).unsqueeze(2).unsqueeze(3);
    for (std::size_t i = 0; i < norms_.size(); ++i) x = norms_[i](layers_[i](x), mode()).relu_();
    return layers_.back()(x).tanh();
  }

 private:
  std::vector<ConvTranspose2d> layers_;
  std::vector<BatchNorm2d> norms_;  // after each layer but the last
};

class DcganDiscriminator final : public LayeredModule {
 public:
  DcganDiscriminator(const spec::model::DcganDiscriminator& options,
                     const stage::ModelContext& context) {
    const std::int64_t channels = checked_channels(options, context);
    const auto pyramid = spec::model::dcgan_pyramid(context.input_shape).value();
    const Scope main = Scope(*this) / "main";
    std::size_t index = 0;
    Conv2dShape shape{
        .in = channels, .out = options.channels, .kernel = 4, .stride = 2, .padding = 1};
    for (int i = 0; i < pyramid.doublings; ++i) {
      Layer layer{make_conv2d(main / index++, shape), std::nullopt};
      if (i > 0 && options.batch_norm) layer.norm = make_batch_norm2d(main / index++, shape.out);
      layers_.push_back(layer);
      ++index;
      shape.in = std::exchange(shape.out, 2 * shape.out);
    }
    last_ = make_conv2d(
        main / index,
        {.in = shape.in, .out = context.outputs, .kernel = pyramid.smallest, .padding = 0});
    redraw_dcgan(parameters());
  }

  /// Returns scores [N, outputs].
  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    constexpr double kSlope = 0.2;
    at::Tensor x = inputs_nchw;
    for (const Layer& layer : layers_) {
      x = layer.conv(x);
      if (layer.norm) x = (*layer.norm)(x, mode());
      x = at::leaky_relu(x, kSlope);
    }
    return last_(x).flatten(1);
  }

 private:
  struct Layer {
    Conv2d conv;
    std::optional<BatchNorm2d> norm;
  };

  std::vector<Layer> layers_;
  Conv2d last_;
};

}  // namespace

void register_model_dcgan(stage::Catalog& catalog) {
  catalog.models.add_class<spec::model::DcganGenerator, DcganGenerator>("dcgan_generator");
  catalog.models.add_class<spec::model::DcganDiscriminator, DcganDiscriminator>(
      "dcgan_discriminator");
}

}  // namespace trainctl::stages
