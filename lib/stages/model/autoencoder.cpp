#include "spec/options/model.hpp"
#include "stages/builtin.hpp"
#include "stages/model/blocks/conv_blocks.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace trainctl::stages {
namespace {

/// The names of the parameters are those of two nn.Sequential, `encoder` and `decoder`, which also
/// count activations, flatten and unflatten.
class Autoencoder final : public LayeredModule {
 public:
  Autoencoder(const spec::model::Autoencoder& options, const stage::ModelContext& context) {
    std::int64_t in = checked_channels(options, context);
    std::array<std::int64_t, 2> size{context.input_shape[1], context.input_shape[2]};
    const Scope encoder = Scope(*this) / "encoder";
    const Scope decoder = Scope(*this) / "decoder";
    const std::size_t levels = options.channels.size();
    std::vector<Conv2dShape> shapes;
    std::vector<std::array<std::int64_t, 2>> paddings;  // 1 where a level halves an even size
    for (std::size_t i = 0; i < levels; ++i) {
      const std::int64_t out = options.channels[i];
      shapes.push_back(
          {.in = in, .out = out, .kernel = 3, .stride = 2, .padding = 1, .bias = Bias::with});
      convs_.push_back(make_conv2d(encoder / (2 * i), shapes.back()));
      paddings.push_back({1 - size[0] % 2, 1 - size[1] % 2});
      for (std::int64_t& extent : size) extent = (extent + 1) / 2;
      in = out;
    }
    smallest_ = {in, size[0], size[1]};
    const std::int64_t values = in * size[0] * size[1];
    encode_ = make_linear(encoder / (2 * levels + 1), values, options.latent_dim);
    decode_ = make_linear(decoder / 0, options.latent_dim, values);
    constexpr std::size_t kFirst = 3;  // after linear, ReLU and unflatten
    for (std::size_t i = 0; i < levels; ++i) {
      Conv2dShape shape = shapes[levels - 1 - i];
      std::swap(shape.in, shape.out);
      deconvs_.push_back(make_conv_transpose2d(decoder / (kFirst + 2 * i), shape));
      deconvs_.back().output_padding = paddings[levels - 1 - i];
    }
  }

  /// Returns images of the shape of the inputs.
  at::Tensor forward(const at::Tensor& inputs_nchw) override {
    at::Tensor x = inputs_nchw;
    for (const Conv2d& conv : convs_) x = conv(x).relu_();
    x = decode_(encode_(x.flatten(1))).relu_().unflatten(1, smallest_);
    for (std::size_t i = 0; i < deconvs_.size(); ++i) x = deconvs_[i](i == 0 ? x : x.relu_());
    return x;
  }

 private:
  std::vector<Conv2d> convs_;
  Linear encode_, decode_;
  std::array<std::int64_t, 3> smallest_{};  // C, H, W after the encoder's convolutions
  std::vector<ConvTranspose2d> deconvs_;
};

}  // namespace

void register_model_autoencoder(stage::Catalog& catalog) {
  catalog.models.add_class<spec::model::Autoencoder, Autoencoder>("autoencoder");
}

}  // namespace trainctl::stages
