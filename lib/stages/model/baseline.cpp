#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/layers.hpp"

#include <ATen/ops/dropout.h>
#include <ATen/ops/max_pool2d.h>
#include <fmt/ranges.h>

namespace trainctl::stages {
namespace {

class LinearModel final : public LayeredModule {
 public:
  LinearModel(const spec::model::Linear& options, const stage::ModelContext& context)
      : fc_(make_linear(Scope(*this) / "fc", checked_features(context), context.outputs,
                        options.bias ? Bias::with : Bias::without)) {}

  at::Tensor forward(const at::Tensor& inputs) override { return fc_(inputs.flatten(1)); }

 private:
  Linear fc_;
};

/// fc1, activation, dropout, fc2, ... on the flattened input; the last layer returns the logits.
class Mlp final : public LayeredModule {
 public:
  Mlp(const spec::model::Mlp& options, const stage::ModelContext& context)
      : activation_(options.activation), dropout_(options.dropout) {
    std::int64_t width = checked_features(context);
    std::vector<std::int64_t> widths = options.hidden;
    widths.push_back(context.outputs);
    for (const std::int64_t next : widths) {
      const std::string name = "fc" + std::to_string(layers_.size() + 1);
      layers_.push_back(make_linear(Scope(*this) / name, width, next));
      width = next;
    }
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    at::Tensor x = inputs.flatten(1);
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
      x = activate(activation_, layers_[i](x));
      if (dropout_ > 0 && training()) x = at::dropout(x, dropout_, true);
    }
    return layers_.back()(x);
  }

 private:
  spec::model::Activation activation_;
  double dropout_;
  std::vector<Linear> layers_;
};

constexpr std::int64_t kClassicSize =
    32;  // LeCun et al. 1998; the first convolution pads 28x28 digits to this size

/// Returns the padding of the first convolution for the input size.
std::int64_t first_padding(const std::vector<std::int64_t>& shape) {
  ENSURE(config, shape.size() == 3,
         "the input has the shape {}, but lenet needs images of the shape C x H x W",
         fmt::join(shape, "x"));
  ENSURE(config, spec::model::Lenet::takes(shape[1], shape[2]),
         "the input is {}x{}, but lenet needs 28x28 or 32x32\nhint: resize the images or choose "
         "model mlp",
         shape[1], shape[2]);
  return (kClassicSize - shape[1]) / 2;
}

/// conv1 (6), pool, conv2 (16), pool, fc1 (120), fc2 (84), fc3, with the names of PyTorch's
/// tutorial.
class Lenet final : public LayeredModule {
 public:
  Lenet(const spec::model::Lenet& options, const stage::ModelContext& context)
      : activation_(options.activation) {
    checked_features(context);
    const std::int64_t padding = first_padding(context.input_shape);
    const Scope scope(*this);
    conv1_ = make_conv2d(scope / "conv1", {.in = context.input_shape[0],
                                           .out = 6,
                                           .kernel = 5,
                                           .padding = padding,
                                           .bias = Bias::with});
    conv2_ = make_conv2d(scope / "conv2",
                         {.in = 6, .out = 16, .kernel = 5, .padding = 0, .bias = Bias::with});
    fc1_ = make_linear(scope / "fc1", 16 * 5 * 5, 120);
    fc2_ = make_linear(scope / "fc2", 120, 84);
    fc3_ = make_linear(scope / "fc3", 84, context.outputs);
  }

  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    at::Tensor x = at::max_pool2d(activate(activation_, conv1_(inputs_nchw)), {2, 2});
    x = at::max_pool2d(activate(activation_, conv2_(x)), {2, 2});
    x = activate(activation_, fc1_(x.flatten(1)));
    return fc3_(activate(activation_, fc2_(x)));
  }

 private:
  spec::model::Activation activation_;
  Conv2d conv1_, conv2_;
  Linear fc1_, fc2_, fc3_;
};

}  // namespace

void register_model_baseline(stage::Catalog& catalog) {
  auto& models = catalog.models;
  models.add_class<spec::model::Linear, LinearModel>("linear");
  models.add_class<spec::model::Mlp, Mlp>("mlp");
  models.add_class<spec::model::Lenet, Lenet>("lenet");
}

}  // namespace trainctl::stages
