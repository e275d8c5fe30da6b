#include "base/files.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment_yaml.hpp"
#include "support/catch.hpp"
#include "support/golden_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace spec = trainctl::spec;

namespace {

constexpr spec::Placement kOnGpu{.on_gpus = true, .ranks = 1};
constexpr const char* kDeterministic = "trainer.deterministic=true";

std::string model_of(const std::string& layers) {
  return "model={type: sequential, layers: [" + layers + ", flatten, linear]}";
}

/// Returns the problems of deterministic training with these overrides.
std::string problems_on(const spec::Placement& placement,
                        const std::vector<std::string>& overrides) {
  trainctl::config::Diagnostics diagnostics;
  spec::check_determinism(load_valid(overrides), placement, diagnostics);
  return diagnostics.render();
}

}  // namespace

TEST_CASE("deterministic: a layer without a deterministic backward pass is an error on a GPU",
          "[spec]") {
  const std::string pools = model_of("relu, {type: adaptive_avg_pool2d, output_size: 7}");
  CHECK_THAT(problems_on(kOnGpu, {pools, kDeterministic}),
             Contains("the layer 'adaptive_avg_pool2d' has no deterministic backward pass on a "
                      "GPU (adaptive_avg_pool2d_backward_cuda)") &&
                 Contains("write 'output_size: 1'"));
  CHECK(problems_on(kOnGpu, {pools}).empty());
  CHECK(problems_on({}, {pools, kDeterministic}).empty());
  CHECK(problems_on(kOnGpu, {model_of("adaptive_avg_pool2d"), kDeterministic}).empty());
  CHECK(problems_on(kOnGpu, {kDeterministic}).empty());
}

TEST_CASE("deterministic: adaptive_max_pool2d and bilinear upsample are errors on a GPU",
          "[spec]") {
  CHECK_THAT(problems_on(kOnGpu, {model_of("adaptive_max_pool2d"), kDeterministic}),
             Contains("adaptive_max_pool2d_backward_cuda"));
  CHECK_THAT(
      problems_on(kOnGpu, {model_of("{type: upsample, size: 8, mode: bilinear}"), kDeterministic}),
      Contains("upsample_bilinear2d_backward_out_cuda"));
  CHECK(problems_on(kOnGpu, {model_of("{type: upsample, size: 8}"), kDeterministic}).empty());
  CHECK_THAT(problems_on(kOnGpu, {"model={type: unet, upsampling: bilinear}", kDeterministic}),
             Contains("write 'upsampling: transposed'"));
  CHECK(problems_on(kOnGpu, {"model=unet", kDeterministic}).empty());
}

TEST_CASE("deterministic: layers inside other layers are checked, too", "[spec]") {
  const std::string pool = "{type: adaptive_avg_pool2d, output_size: 2}";
  for (const std::string& key : std::vector<std::string>{
           "residual, layers: [" + pool + "]", "residual, layers: [relu], shortcut: [" + pool + "]",
           "concat, branches: [{layers: []}, {layers: [" + pool + "]}]"}) {
    CAPTURE(key);
    CHECK_THAT(problems_on(kOnGpu, {model_of("{type: " + key + "}"), kDeterministic}),
               Contains("adaptive_avg_pool2d_backward_cuda"));
  }
}

TEST_CASE("deterministic: the docs list the same stages as the check", "[spec]") {
  const std::string page =
      trainctl::read_file(golden_folder() / "../../docs/explanation/determinism.md", 1 << 20,
                          trainctl::ReadFailure::resource);
  std::string section = page.substr(page.find("| stage | condition | operation |"));
  section.resize(section.find("\n\n"));
  for (const spec::NondeterministicStage& stage : spec::nondeterministic_stages()) {
    CHECK_THAT(section, Contains(fmt::format("\n| {} `{}` | {} | `{}` |", stage.kind, stage.type,
                                             stage.condition, stage.operation)));
  }
  const auto rows = static_cast<std::size_t>(std::ranges::count(section, '\n')) - 1;
  CHECK(rows == spec::nondeterministic_stages().size());
}

TEST_CASE("deterministic: keys that contradict it are reported", "[spec]") {
  CHECK_THAT(problems_of({kDeterministic, "trainer.benchmark=true"}),
             Contains("cannot be combined with 'deterministic: true'"));
  CHECK_THAT(problems_of({kDeterministic, "trainer.float32_matmul_precision=high"}),
             Contains("'float32_matmul_precision' has no effect"));
  CHECK(problems_of({kDeterministic, "trainer.benchmark=false"}).empty());
  CHECK(problems_of({"trainer.benchmark=true"}).empty());
}
