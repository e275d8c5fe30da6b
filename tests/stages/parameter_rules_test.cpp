#include "stages/optimizer/parameter_rules.hpp"

#include "stages/builtin.hpp"
#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>

#include <limits>

using namespace trainctl;
using stages::parameter_settings;

namespace {

std::vector<stage::NamedTensor> named_network() {
  std::vector<stage::NamedTensor> parameters;
  const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
    parameters.push_back({name, at::ones(shape).requires_grad_()});
  };
  add("conv1.weight", {4, 3, 3, 3});
  add("bn1.weight", {4});
  add("bn1.bias", {4});
  add("layer1.0.conv1.weight", {4, 4, 3, 3});
  add("layer1.1.conv1.weight", {4, 4, 3, 3});
  add("layer2.0.conv1.weight", {4, 4, 3, 3});
  add("attn.in_proj_bias", {6});
  add("fc.weight", {3, 4});
  add("fc.bias", {3});
  return parameters;
}

}  // namespace

TEST_CASE("no_weight_decay_on: matches biases, scales of norm layers and patterns") {
  spec::optimizer::Base options;
  options.weight_decay = 0.1;
  options.no_weight_decay_on = {"bias", "norm", "layer2.*"};
  const auto settings = parameter_settings(options, named_network(), {"sum"});
  const std::vector<double> expected{0.1, 0, 0, 0.1, 0.1, 0, 0, 0.1, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO(named_network()[i].name);
    CHECK(settings[i].weight_decay == expected[i]);
    CHECK(settings[i].lr_scale == 1);
  }
}

TEST_CASE("no_weight_decay_on: a layer's name matches all parameters below it, as in freeze") {
  spec::optimizer::Base options;
  options.weight_decay = 0.1;
  options.no_weight_decay_on = {"layer2"};
  const auto parameters = named_network();
  const auto settings = parameter_settings(options, parameters, {"sum"});
  std::size_t below = 0;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    INFO(parameters[i].name);
    const bool is_below = parameters[i].name.starts_with("layer2.");
    below += is_below ? 1 : 0;
    CHECK(settings[i].weight_decay == (is_below ? 0 : 0.1));
  }
  CHECK(below > 0);
}

TEST_CASE("optimizer groups: learning rate scales multiply, and the last weight decay applies") {
  spec::optimizer::Base options;
  options.weight_decay = 0.1;
  options.groups = {{.match = {"layer*"}, .lr_scale = 0.5},
                    {.match = {"*.1.*", "fc.*"}, .lr_scale = 0.5, .weight_decay = 0.3}};
  const auto settings = parameter_settings(options, named_network(), {"sum"});
  CHECK(settings[0].lr_scale == 1);
  CHECK(settings[3].lr_scale == 0.5);
  CHECK(settings[4].lr_scale == 0.25);
  CHECK(settings[4].weight_decay == 0.3);
  CHECK(settings[7].lr_scale == 0.5);
  CHECK(settings[7].weight_decay == 0.3);
}

TEST_CASE("layer_decay: the learning rate decreases from the last layer to the first") {
  spec::optimizer::Base options;
  options.layer_decay = 0.5;
  const auto settings = parameter_settings(options, named_network(), {"sum"});
  // conv1, bn1, layer1, layer2, attn, fc
  const std::vector<double> expected{1.0 / 32, 1.0 / 16, 1.0 / 16, 0.125, 0.125, 0.25, 0.5, 1, 1};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO(named_network()[i].name);
    CHECK(settings[i].lr_scale == expected[i]);
  }
}

TEST_CASE("layer_decay: parameters before the first numbered layer form one layer") {
  spec::optimizer::Base options;
  options.layer_decay = 0.5;
  const std::vector<std::pair<std::string, double>> vision_transformer{
      {"class_token", 1.0 / 16},
      {"conv_proj.weight", 1.0 / 16},
      {"conv_proj.bias", 1.0 / 16},
      {"encoder.pos_embedding", 1.0 / 16},
      {"encoder.layers.encoder_layer_0.ln_1.weight", 0.125},
      {"encoder.layers.encoder_layer_0.mlp.0.weight", 0.125},
      {"encoder.layers.encoder_layer_1.ln_1.weight", 0.25},
      {"encoder.ln.weight", 0.5},
      {"encoder.ln.bias", 0.5},
      {"heads.head.weight", 1},
      {"heads.head.bias", 1}};
  std::vector<stage::NamedTensor> parameters;
  for (const auto& [name, scale] : vision_transformer)
    parameters.push_back({name, at::ones({2}).requires_grad_()});
  const auto settings = parameter_settings(options, parameters, {"sum"});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    INFO(parameters[i].name);
    CHECK(settings[i].lr_scale == vision_transformer[i].second);
  }
}

TEST_CASE("no_weight_decay_on: bias and norm may match nothing") {
  spec::optimizer::Base options;
  options.weight_decay = 0.1;
  options.no_weight_decay_on = {"bias", "norm"};
  const std::vector<stage::NamedTensor> bare{{"fc1.weight", at::ones({2, 2}).requires_grad_()}};
  CHECK(parameter_settings(options, bare, {"sum"})[0].weight_decay == 0.1);
}

TEST_CASE("layer_of: a layer's name ends at its first number") {
  CHECK(stages::layer_of("encoder.layers.encoder_layer_3.ln_1.weight") ==
        "encoder.layers.encoder_layer_3");
  CHECK(stages::layer_of("features.3.conv.0.0.weight") == "features.3");
  CHECK(stages::layer_of("h.11.attn.c_attn.weight") == "h.11");
  CHECK(stages::layer_of("fc.weight") == "fc");
  CHECK(stages::layer_of("class_token") == "class_token");
}

TEST_CASE("optimizer patterns: a pattern without a match is an error with an existing name") {
  spec::optimizer::Base options;
  options.no_weight_decay_on = {"layer9.*"};
  CHECK_THROWS_WITH(parameter_settings(options, named_network(), {"sum"}),
                    Contains("no_weight_decay_on: 'layer9.*' matches no trained parameter"));
  options.no_weight_decay_on = {};
  options.groups = {{.match = {"fc.weigth"}}};
  CHECK_THROWS_WITH(parameter_settings(options, named_network(), {"sum"}),
                    Contains("'fc.weigth'") && Contains("choose, for example, fc.weight"));
}

TEST_CASE("muon: a pattern without a match in adamw_on is an error") {
  const auto make = [](const std::string& options) {
    return stages::builtin_catalog().optimizers.build(
        stages_test::stage("optimizer", "muon", options), {named_network()});
  };
  CHECK_NOTHROW(make("{}"));
  CHECK_NOTHROW(make("{adamw_on: ['*wte.*', 'fc.*']}"));
  CHECK_THROWS_WITH(make("{adamw_on: ['fcc.*']}"),
                    Contains("adamw_on: 'fcc.*' matches no trained parameter"));
}

TEST_CASE("optimizer groups: every optimizer applies their learning rate and weight decay") {
  for (const std::string type :
       {"sgd", "adam", "adamw", "adagrad", "rmsprop", "nadam", "radam", "lion", "lamb", "muon"}) {
    INFO(type);
    const auto make = [&](const std::string& options, const std::string& name) {
      std::vector<stage::NamedTensor> one{{name, at::ones({3, 3}).requires_grad_()}};
      auto optimizer = stages::builtin_catalog().optimizers.build(
          stages_test::stage("optimizer", type, options), {one});
      one[0].tensor.mutable_grad() = at::full_like(one[0].tensor, 0.5);
      optimizer->step();
      optimizer->set_lr(0.02);
      optimizer->step();
      return one[0].tensor.detach();
    };
    const at::Tensor half = make(
        "{lr: 0.01, weight_decay: 0.5, groups: [{match: [slow], lr_scale: 0.5, weight_decay: "
        "0.1}]}",
        "slow");
    const at::Tensor whole = make("{lr: 0.01, weight_decay: 0.1}", "slow");
    std::vector<stage::NamedTensor> one{{"slow", at::ones({3, 3}).requires_grad_()}};
    auto direct = stages::builtin_catalog().optimizers.build(
        stages_test::stage("optimizer", type, "{lr: 0.005, weight_decay: 0.1}"), {one});
    one[0].tensor.mutable_grad() = at::full_like(one[0].tensor, 0.5);
    direct->step();
    direct->set_lr(0.01);
    direct->step();
    CHECK(mismatch(half, one[0].tensor.detach()) == "");
    CHECK_FALSE(half.equal(whole));
  }
}

TEST_CASE("step_unless: a step with infinite gradients changes nothing and is not counted") {
  for (const std::string type :
       {"sgd", "adam", "adamw", "adagrad", "rmsprop", "nadam", "radam", "lion", "lamb", "muon"}) {
    INFO(type);
    const auto run = [&](bool with_bad_step) {
      std::vector<stage::NamedTensor> one{{"weight", at::ones({3, 3}).requires_grad_()}};
      const std::string momentum = type == "sgd" ? ", momentum: 0.9" : "";
      auto optimizer = stages::builtin_catalog().optimizers.build(
          stages_test::stage("optimizer", type, "{lr: 0.01" + momentum + "}"), {one});
      const auto step = [&](double gradient, float found) {
        one[0].tensor.mutable_grad() = at::full_like(one[0].tensor, gradient);
        optimizer->step_unless(at::ones({1}) * found);
      };
      step(0.5, 0);
      if (with_bad_step) step(std::numeric_limits<double>::infinity(), 1);
      step(-0.25, 0);
      return one[0].tensor.detach();
    };
    CHECK(run(true).equal(run(false)));
  }
}
