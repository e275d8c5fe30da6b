#include "stages/builtin.hpp"
#include "support/catch.hpp"
#include "support/stage.hpp"
#include "train/debug/memory_report.hpp"
#include "train/fake_run.hpp"

#include <ATen/record_function.h>

#include <new>

using namespace trainctl;
using train::largest_outputs;

namespace {

constexpr const char* kPooledLayers =
    "{layers: [{type: adaptive_avg_pool2d, output_size: 16}, {type: conv2d, out_channels: 3, "
    "kernel_size: 1}, {type: conv2d, out_channels: 2, kernel_size: 1}, flatten, linear]}";

const std::vector<std::int64_t> kLargest{1000, 3, 16, 16};

std::unique_ptr<stage::Model> seeded_model(const std::string& type, const std::string& options,
                                           const stage::ModelContext& context) {
  at::manual_seed(1);
  return stages::builtin_catalog().models.build(stage_from("model", type, options), context);
}

/// Fails in the middle, as if not even a row fits in memory.
struct Failing final : FakeModel {
  at::Tensor forward(const at::Tensor& inputs) override {
    (void)FakeModel::forward(inputs);
    throw std::bad_alloc();
  }
};

}  // namespace

TEST_CASE("largest_outputs: sizes for a whole batch are computed from one row") {
  const auto model = seeded_model("sequential", kPooledLayers, {{1, 8, 8}, 5});
  const auto outputs = largest_outputs(*model, at::zeros({1, 1, 8, 8}), {}, 1000);
  REQUIRE(outputs.size() == 3);  // the logits are less than a hundredth
  CHECK(outputs[0].where == "1");
  CHECK(outputs[0].op == "conv2d");
  CHECK(outputs[0].shape == kLargest);
  CHECK(outputs[0].dtype == "float32");
  CHECK(outputs[0].mib == Approx(1000.0 * 3 * 16 * 16 * 4 / (1 << 20)));
  CHECK(outputs[1].where == "2");
  CHECK(outputs[2].where == "before the first layer");
  CHECK(outputs[2].op == "adaptive_avg_pool2d");
  CHECK(largest_outputs(*model, at::zeros({1, 1, 8, 8}), {}, 1000, 2).size() == 2);
}

TEST_CASE("largest_outputs: mixed precision reports the dtypes of the run") {
  const auto model = seeded_model("sequential", kPooledLayers, {{1, 8, 8}, 5});
  const train::ForwardOptions half{.precision = spec::Precision::bf16_mixed};
  const auto outputs = largest_outputs(*model, at::zeros({1, 1, 8, 8}), half, 10);
  REQUIRE_FALSE(outputs.empty());
  CHECK(outputs[0].dtype == "bfloat16");
  CHECK(outputs[0].mib == Approx(10.0 * 3 * 16 * 16 * 2 / (1 << 20)));
}

TEST_CASE("largest_outputs: buffers are unchanged, and a failure leaves no callbacks") {
  const auto model = seeded_model("resnet18", "{}", {{3, 32, 32}, 10});
  const at::Tensor before = model->buffers().front().tensor.clone();
  const auto outputs = largest_outputs(*model, at::randn({1, 3, 32, 32}), {}, 64);
  REQUIRE(outputs.size() == 5);
  for (std::size_t i = 1; i < outputs.size(); ++i) CHECK(outputs[i].mib <= outputs[i - 1].mib);
  CHECK(model->buffers().front().tensor.equal(before));
  Failing failing;
  CHECK_THROWS_AS(largest_outputs(failing, at::zeros({1, 6}), {}, 8), std::bad_alloc);
  CHECK_FALSE(at::hasCallbacks());
  CHECK(failing.mode == stage::RunMode::train);
}
