#include "support/catch.hpp"
#include "train/measure/layer_times.hpp"

using namespace trainctl::train;

namespace {

const std::vector<LayerRow> kRows{
    {"layer1.0.conv1", "conv2d", 1, 1.5, 2.25, 0.375, 0.0123456789, {64, 16, 28, 28}},
    {"say \"hi\"", "", 0, 0, 0, 0, 0, {}}};

}  // namespace

TEST_CASE("layers_as_csv: fields with commas or quotes are quoted") {
  CHECK(layers_as_csv(kRows) ==
        "layer,kind,calls,forward_ms,backward_ms,share,gflop,output\n"
        "\"layer1.0.conv1\",conv2d,1,1.5,2.25,0.375,0.0123456789,\"[64, 16, 28, 28]\"\n"
        "\"say \"\"hi\"\"\",,0,0,0,0,0,\"\"\n");
  CHECK(layers_as_csv({}) == "layer,kind,calls,forward_ms,backward_ms,share,gflop,output\n");
}

TEST_CASE("layers_as_text: says whether the times are the CPU's or the GPU's") {
  const std::string on_cpu = layers_as_text(kRows, {.steps = 5});
  CHECK_THAT(on_cpu, StartsWith("Mean times of 5 steps. CPU times") && Contains("37.5%") &&
                         Contains("[64, 16, 28, 28]\n"));
  CHECK_THAT(layers_as_text(kRows, {.steps = 1, .on_device = true}),
             StartsWith("Mean times of 1 step. GPU times"));
}
