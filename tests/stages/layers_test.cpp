#include "spec/layer_shapes.hpp"
#include "stage/checkpoint.hpp"
#include "stage/forward_context.hpp"
#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <string>
#include <utility>
#include <vector>

using namespace trainctl;
using stages_test::ramp;
using stages_test::tensor;

namespace {

struct Built {
  std::unique_ptr<stage::Model> layer;
  spec::layer::Shape output;  // shape inference's answer
};

/// `lengths` are those of the padded texts that the layer gets.
Built make_layers(const std::string& type, const std::string& options,
                  const spec::layer::Shape& shape, const std::vector<std::int64_t>& lengths = {}) {
  const config::Stage stage = stages_test::stage("layer", type, options);
  spec::layer::LayerInput input{shape, /*tokens=*/false, /*outputs=*/3};
  std::shared_ptr<stage::PaddedTokens> tokens;
  if (!lengths.empty()) {
    input.padded_length = shape[0];
    tokens = std::make_shared<stage::PaddedTokens>();
    const auto rows = static_cast<std::int64_t>(lengths.size());
    tokens->inputs = at::zeros({rows, shape[0]}, at::kLong);
    for (std::int64_t row = 0; row < rows; ++row)
      tokens->inputs[row].narrow(0, 0, lengths[static_cast<std::size_t>(row)]).fill_(5);
  }
  return {stages::builtin_catalog().layers.build(stage, {input, /*relu_follows=*/false, tokens}),
          spec::step_of(stage, input).shape};
}

void check_layer(const at::Tensor& found, const Json& expected) {
  const at::Tensor numbers = tensor(expected);
  CHECK(mismatch(found, numbers, share_of_largest(numbers, 1e-5)) == "");
}

std::vector<at::Tensor> gradients(stage::Model& layer, const at::Tensor& x) {
  at::manual_seed(2);
  layer.forward(x).pow(2).sum().backward();
  std::vector<at::Tensor> all;
  for (const auto& [name, parameter] : layer.parameters())
    all.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
  return all;
}

}  // namespace

TEST_CASE("layers: seeded weights, names, outputs and gradients equal PyTorch's") {
  const Json golden = stages_test::golden("layers");
  for (const Json& one : golden["cases"]) {
    INFO(one["type"] << " " << one["options"]);
    at::manual_seed(golden["seed"]);
    const auto [layer, shape] =
        make_layers(one["type"], one["options"].dump(), stages_test::shape_of(one["input_shape"]),
                    one.value("lengths", std::vector<std::int64_t>{}));
    stages_test::check_names(layer->parameters(), one["parameters"]);
    stages_test::check_names(layer->buffers(), one["buffers"]);
    stages_test::perturb(*layer);
    at::Tensor x = ramp(stages_test::shape_of(one["input_shape"])).requires_grad_();
    const at::Tensor output = layer->forward(x);
    check_layer(output.detach(), one["output"]);
    CHECK(output.sizes().slice(1) == at::IntArrayRef(shape));
    (output * ramp(shape)).sum().backward();
    check_layer(x.grad(), one["gradients"]["input"]);
    for (const auto& [name, parameter] : layer->parameters()) {
      INFO(name);
      check_layer(parameter.grad(), one["gradients"][name]);
    }
    layer->set_mode(stage::RunMode::evaluate);
    const at::NoGradGuard guard;
    check_layer(layer->forward(x), one["evaluated"]);
  }
}

TEST_CASE("layers: states that overflow in the padding of a text do not reach the outputs") {
  const auto [layer, shape] =
      make_layers("rnn", "{hidden_size: 2, nonlinearity: relu, packed: true}", {200, 8}, {1, 2});
  const at::NoGradGuard guard;
  for (const auto& [name, parameter] : layer->parameters()) parameter.fill_(5);
  const at::Tensor output = layer->forward(ramp({200, 8}).abs());
  CHECK(output.isfinite().all().item<bool>());
  CHECK(output[0].narrow(0, 1, 199).eq(0).all().item<bool>());
  CHECK(output[1].select(0, 1).gt(0).all().item<bool>());
}

TEST_CASE("layers: dropout inside a layer is random in training and off in evaluation") {
  const at::Tensor x = ramp({6, 8});
  for (const auto& [type, options] : std::vector<std::pair<std::string, std::string>>{
           {"multihead_attention", "{num_heads: 2, dropout: 0.5}"},
           {"transformer_encoder_layer", "{nhead: 2, dim_feedforward: 8}"},
           {"rnn", "{hidden_size: 4, num_layers: 2, dropout: 0.5}"},
           {"gru", "{hidden_size: 4, num_layers: 2, dropout: 0.5}"},
           {"lstm", "{hidden_size: 4, num_layers: 2, dropout: 0.5}"}}) {
    INFO(type);
    const auto [layer, shape] = make_layers(type, options, {6, 8});
    const at::NoGradGuard guard;
    CHECK_FALSE(layer->forward(x).equal(layer->forward(x)));
    layer->set_mode(stage::RunMode::evaluate);
    CHECK(layer->forward(x).equal(layer->forward(x)));
  }
}

TEST_CASE("layers: recomputed blocks in nested lists have equal gradients, also with dropout") {
  const std::string encoder = "{type: transformer_encoder_layer, nhead: 2, dim_feedforward: 8}";
  const auto [layer, shape] =
      make_layers("concat",
                  "{dim: 2, branches: [{layers: [{type: residual, layers: [" + encoder +
                      "]}]}, {layers: [" + encoder + ", tanh]}]}",
                  {5, 8});
  CHECK(shape == spec::layer::Shape{5, 16});
  const at::Tensor x = ramp({5, 8}).requires_grad_();  // otherwise nothing is recomputed
  const auto kept = gradients(*layer, x);
  REQUIRE(kept.size() == 24);
  CHECK(layer->has_blocks());
  CHECK(layer->checkpoint_activations());
  const auto recomputed = gradients(*layer, x);
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(recomputed[i].equal(kept[i]));
  const auto [flat, width] = make_layers("residual", "{layers: [tanh]}", {5, 8});
  CHECK_FALSE(flat->has_blocks());
  CHECK_FALSE(flat->checkpoint_activations());
}

TEST_CASE("layers: a recomputed instance_norm2d does not update its averages twice") {
  const auto averages = [](bool recomputes) {
    const auto [layer, shape] =
        make_layers("instance_norm2d", "{track_running_stats: true}", {2, 3, 4});
    const at::Tensor x = ramp({2, 3, 4}).requires_grad_();
    const auto segment = [&layer = *layer](const at::Tensor& in) { return layer.forward(in); };
    (recomputes ? stage::checkpoint(segment, x) : segment(x)).pow(2).sum().backward();
    return layer->buffers();
  };
  const auto once = averages(false);
  const auto again = averages(true);
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(again[i].tensor.equal(once[i].tensor));
  CHECK_FALSE(once[0].tensor.eq(0).any().item<bool>());
}

TEST_CASE("layers: with bf16-mixed, inputs of 16 bits and of 32 bits are accepted") {
  for (const auto& [type, options] : std::vector<std::pair<std::string, std::string>>{
           {"conv1d", "{out_channels: 2, kernel_size: 3}"},
           {"group_norm", "{num_groups: 2}"},
           {"rms_norm", "{}"},
           {"prelu", "{}"},
           {"leaky_relu", "{}"},
           {"positional_embedding", "{}"},
           {"multihead_attention", "{num_heads: 2}"},
           {"transformer_encoder_layer", "{nhead: 2, dim_feedforward: 8}"},
           {"rnn", "{hidden_size: 4}"},
           {"gru", "{hidden_size: 4}"},
           {"lstm", "{hidden_size: 4}"},
           {"concat", "{branches: [{layers: [{type: linear, out_features: 8}]}, {layers: []}]}"}}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      INFO(type << " of " << at::toString(dtype));
      const auto [layer, shape] = make_layers(type, options, {6, 8});
      layer->set_mode(stage::RunMode::evaluate);
      const at::Tensor x = ramp({6, 8}).requires_grad_();
      const at::Tensor exact = layer->forward(x).detach();
      const stage::Autocast scope(at::kCPU, at::kBFloat16);
      const at::Tensor found = layer->forward(x.to(dtype)).to(at::kFloat);
      CHECK(mismatch(found.detach(), exact, share_of_largest(exact, 0.05)) == "");
      found.sum().backward();
      CHECK(x.grad().isfinite().all().item<bool>());
    }
  }
}

TEST_CASE("layers: dropout of recurrent layers draws from the generator that checkpoints contain") {
  const at::Tensor x = ramp({6, 8});
  const auto output = [&x](stage::Model& layer) {
    at::manual_seed(3);
    return layer.forward(x).detach();
  };
  for (const std::string type : {"rnn", "gru", "lstm"}) {
    INFO(type);
    const std::string size = "{hidden_size: 4, num_layers: 3, bidirectional: true, output: last";
    at::manual_seed(1);
    const Built plain = make_layers(type, size + "}", {6, 8});
    at::manual_seed(1);
    const Built dropping = make_layers(type, size + ", dropout: 0.5}", {6, 8});
    CHECK(output(*dropping.layer).equal(output(*dropping.layer)));
    CHECK(mismatch(output(*dropping.layer), output(*plain.layer)) != "");
    dropping.layer->set_mode(stage::RunMode::evaluate);
    CHECK(mismatch(output(*dropping.layer), output(*plain.layer)) == "");
    const auto parameters = plain.layer->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      CHECK(dropping.layer->parameters()[i].name == parameters[i].name);
  }
}
