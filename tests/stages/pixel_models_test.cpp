#include "stages/support.hpp"
#include "support/catch.hpp"
#include "support/close.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <string>
#include <vector>

using namespace trainctl;
using stages_test::make_model;
using stages_test::ramp;
using stages_test::tensor;

namespace {

/// Returns the context that the model needs: an autoencoder predicts the values of its input, unet
/// the class of each pixel, and a generator makes images of the shape `image`.
stage::ModelContext context_of(const std::string& type, const std::vector<std::int64_t>& shape,
                               std::int64_t classes, const std::vector<std::int64_t>& image = {}) {
  if (!image.empty()) {
    const spec::SampleKind kind{spec::Inputs::numbers, spec::Targets::numbers};
    return {shape, spec::layer::values_in(image), kind, image};
  }
  if (type != "autoencoder") return {shape, classes, {spec::Inputs::images, spec::Targets::pixels}};
  return {shape, spec::layer::values_in(shape), {spec::Inputs::images, spec::Targets::numbers}};
}

void check_pixels(const at::Tensor& found, const Json& expected) {
  const at::Tensor numbers = tensor(expected);
  CHECK(mismatch(found.detach(), numbers, share_of_largest(numbers, 1e-4)) == "");
}

}  // namespace

TEST_CASE("pixel models: seeded weights, names, outputs and gradients equal PyTorch's") {
  const Json golden = stages_test::golden("pixel_models");
  for (const Json& run : golden["cases"]) {
    INFO(run["type"] << " " << run["options"]);
    at::manual_seed(golden["seed"]);
    const std::vector<std::int64_t> shape = stages_test::shape_of(run["input_shape"]);
    const auto model = make_model(run["type"], run["options"].dump(),
                                  context_of(run["type"], shape, run["classes"],
                                             run.value("image", std::vector<std::int64_t>())));
    stages_test::check_names(model->parameters(), run["parameters"]);
    stages_test::check_names(model->buffers(), run["buffers"]);
    stages_test::perturb(*model);
    const at::Tensor output = model->forward(ramp(shape));
    check_pixels(output, run["output"]);
    (output * ramp(output.sizes().slice(1).vec())).sum().backward();
    stages_test::check_gradients(*model, run["gradients"]);
    model->set_mode(stage::RunMode::evaluate);
    const at::NoGradGuard guard;
    check_pixels(model->forward(ramp(shape)), run["evaluated"]);
  }
}

TEST_CASE("pixel models: outputs have the size of the images, also if it is odd") {
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{3, 8, 8}, {1, 9, 13}, {2, 28, 21}}) {
    const at::Tensor x = ramp(shape);
    for (const std::string upsampling : {"transposed", "bilinear"}) {
      const auto unet =
          make_model("unet", "{channels: 2, depth: 3, upsampling: " + upsampling + "}",
                     context_of("unet", shape, 5));
      CHECK(unet->forward(x).sizes() == at::IntArrayRef({2, 5, shape[1], shape[2]}));
    }
    const auto autoencoder =
        make_model("autoencoder", "{channels: [2, 3, 4]}", context_of("autoencoder", shape, 10));
    CHECK(autoencoder->forward(x).sizes() == x.sizes());
  }
}

TEST_CASE("pixel models: images that are too small and other samples are an error") {
  CHECK_THROWS_WITH(make_model("unet", "{}", context_of("unet", {3, 15, 40}, 2)),
                    Contains("the images are 15x40, but the model halves them 4 times and needs at "
                             "least 16x16") &&
                        Contains("lower 'depth'"));
  CHECK_THROWS_WITH(make_model("unet", "{}", {{40}, 2}), Contains("needs images of the shape"));
  CHECK_THROWS_WITH(make_model("unet", "{}", {{3, 32, 32}, 2}),
                    Contains("unet predicts the class of each pixel, but the targets are classes"));
  CHECK_THROWS_WITH(make_model("autoencoder", "{}", {{40}, 2}),
                    Contains("needs images of the shape"));
  CHECK_THROWS_WITH(make_model("autoencoder", "{}", {{3, 8, 8}, 10}),
                    Contains("reproduces its input") && Contains("task: reconstruction"));
}

TEST_CASE("pixel models: DCGAN's networks refuse other sizes, and a generator other tasks") {
  CHECK_THROWS_WITH(make_model("dcgan_discriminator", "{}", {{3, 48, 48}, 1}),
                    Contains("the images are 3x48x48") && Contains("28x28, 32x32 or 64x64"));
  CHECK_THROWS_WITH(
      make_model("dcgan_generator", "{}", context_of("dcgan_generator", {8}, 1, {2, 28, 28})),
      Contains("the images are 2x28x28") && Contains("with 1 or 3 channels"));
  CHECK_THROWS_WITH(make_model("dcgan_generator", "{}", {{8}, 784}),
                    Contains("makes images from random numbers") && Contains("type gan"));
}
