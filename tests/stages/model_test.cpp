#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/randn.h>

using namespace trainctl;
using stages_test::make_model;
using stages_test::ramp;
using stages_test::shape_of;
using stages_test::tensor;

TEST_CASE("models: seeded names, shapes, weights and logits equal PyTorch's") {
  const Json golden = stages_test::golden("models");
  for (const Json& run : golden["cases"]) {
    INFO(run["type"] << " " << run["options"]);
    at::manual_seed(golden["seed"]);
    const auto model = make_model(run["type"], run["options"].dump(),
                                  {shape_of(run["input_shape"]), run["classes"]});
    const auto parameters = model->parameters();
    REQUIRE(parameters.size() == run["parameters"].size());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Json& expected = run["parameters"][i];
      CHECK(parameters[i].name == expected["name"]);
      CHECK(parameters[i].tensor.sizes() == at::IntArrayRef(shape_of(expected["shape"])));
      const at::Tensor values = parameters[i].tensor.detach().flatten();
      CHECK(mismatch(values.slice(0, 0, 4), tensor(expected["first"]),
                     share_of_largest(values, 1e-5)) == "");
    }
    CHECK(model->buffers().empty());
    CHECK(mismatch(model->forward(ramp(shape_of(run["input_shape"]))).detach(),
                   tensor(run["logits"])) == "");
  }
}

TEST_CASE("models: the same seed gives the same weights, and another seed gives others") {
  const stage::ModelContext context{{1, 28, 28}, 10};
  const auto first_weight = [&](std::uint64_t seed) {
    at::manual_seed(seed);
    return make_model("lenet", "{}", context)->parameters()[0].tensor;
  };
  CHECK(first_weight(1).equal(first_weight(1)));
  CHECK_FALSE(first_weight(1).equal(first_weight(2)));
}

TEST_CASE("models: every parameter of linear, mlp and lenet gets a gradient") {
  for (const std::string type : {"linear", "mlp", "lenet"}) {
    INFO(type);
    const auto model = make_model(type, "{}", {{3, 32, 32}, 7});
    const at::Tensor logits = model->forward(at::randn({2, 3, 32, 32}));
    CHECK(logits.sizes() == at::IntArrayRef({2, 7}));
    logits.sum().backward();
    for (const auto& [name, parameter] : model->parameters()) {
      INFO(name);
      CHECK(parameter.grad().defined());
    }
  }
}

TEST_CASE("mlp: dropout is random in training and off in evaluation") {
  const auto model = make_model("mlp", "{hidden: [64], dropout: 0.5}", {{1, 4, 4}, 3});
  const at::Tensor x = at::randn({2, 1, 4, 4});
  CHECK_FALSE(model->forward(x).equal(model->forward(x)));
  model->set_mode(stage::RunMode::evaluate);
  CHECK(model->forward(x).equal(model->forward(x)));
}

TEST_CASE("lenet: an image size other than 28x28 or 32x32 is an error") {
  CHECK_NOTHROW(make_model("lenet", "{}", {{1, 28, 28}, 10}));
  CHECK_NOTHROW(make_model("lenet", "{}", {{4, 32, 32}, 10}));
  CHECK_THROWS_WITH(
      make_model("lenet", "{}", {{3, 64, 64}, 10}),
      "model 'lenet': the input is 64x64, but lenet needs 28x28 or 32x32\nhint: resize "
      "the images or choose model mlp");
  CHECK_THROWS_WITH(make_model("lenet", "{}", {{1, 28, 32}, 10}), Contains("the input is 28x32"));
  CHECK_THROWS_WITH(make_model("lenet", "{}", {{784}, 10}),
                    Contains("the shape 784, but lenet needs images of the shape C x H x W"));
}

TEST_CASE("models: an input without a shape, or data without classes, is an error") {
  for (const std::string type : {"linear", "mlp", "lenet"}) {
    CHECK_THROWS_WITH(make_model(type, "{}", {{}, 10}), Contains("the input has no shape"));
    CHECK_THROWS_WITH(make_model(type, "{}", {{1, 0, 28}, 10}), Contains("the shape 1x0x28"));
    CHECK_THROWS_WITH(make_model(type, "{}", {{1, 28, 28}, 0}),
                      Contains("but the data has no classes or targets"));
  }
}
