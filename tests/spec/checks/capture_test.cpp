#include "spec/checks/checks.hpp"
#include "spec/experiment_yaml.hpp"
#include "support/catch.hpp"

namespace spec = trainctl::spec;
using Catch::Matchers::Equals;

namespace {

constexpr spec::Placement kOneGpu{.on_gpus = true, .ranks = 1};

std::string obstacle(const std::vector<std::string>& overrides,
                     const spec::Placement& placement = kOneGpu) {
  return spec::capture_obstacle(load_valid(overrides).experiment, placement).value_or("none");
}

/// Returns the problems of an experiment before training.
std::string capture_problems(const std::vector<std::string>& overrides) {
  trainctl::config::Diagnostics diagnostics;
  spec::check_capture(load_valid(overrides), diagnostics);
  return diagnostics.render();
}

}  // namespace

TEST_CASE(
    "CUDA graphs: accumulation, clipping, EMA, 16-bit precision, a profiler, several ranks, zero1 "
    "and sync_batchnorm allow capture",
    "[spec]") {
  CHECK(obstacle({}) == "none");
  CHECK(obstacle({"trainer.accumulate_grad_batches=4", "profiler={}"}) == "none");
  CHECK(obstacle({}, {.on_gpus = true, .ranks = 16}) == "none");
  CHECK(obstacle({"distributed.type=zero1", "trainer.sync_batchnorm=true"},
                 {.on_gpus = true, .ranks = 2}) == "none");
  CHECK(obstacle({"trainer.gradient_clip_val=1", "trainer.ema={}", "trainer.log_norms=true",
                  "trainer.precision=16-mixed", "trainer.allow_slow_precision=true",
                  "trainer.channels_last=true", "trainer.deterministic=true"}) == "none");
}

TEST_CASE("CUDA graphs: options that prevent the capture of a step are reported", "[spec]") {
  CHECK_THAT(obstacle({}, {.on_gpus = false}), Contains("on a CPU"));
  for (const char* options :
       {"{compression: bf16}", "{compression: powersgd}", "{find_unused_parameters: true}"}) {
    const std::string distributed = std::string("distributed=") + options;
    INFO(distributed);
    CHECK_THAT(obstacle({distributed}, {.on_gpus = true, .ranks = 2}), Contains("distributed."));
    CHECK(obstacle({distributed}) == "none");
  }
  CHECK_THAT(obstacle({"trainer.detect_anomaly=true"}), Contains("trainer.detect_anomaly"));
  CHECK_THAT(obstacle({"freeze=[fc1]", "unfreeze_at=[{epoch: 2, match: [fc1]}]"}),
             Contains("unfreeze_at changes what a step computes"));
  CHECK_THAT(obstacle({"task=masked_language_modeling"}), Contains("draws random numbers"));
}

TEST_CASE("CUDA graphs: momentum cycles, and ignore_index with metrics, prevent capture",
          "[spec]") {
  const std::string cycle = "{type: one_cycle_lr, interval: step}";
  const auto in_sequence = [](const std::string& stage) {
    return "scheduler={type: sequential_lr, milestones: [2], schedulers: [constant, " + stage +
           "]}";
  };
  CHECK_THAT(obstacle({"scheduler=" + cycle}), Contains("changes the momentum"));
  CHECK_THAT(obstacle({in_sequence(cycle)}), Contains("changes the momentum"));
  CHECK_THAT(obstacle({in_sequence("{type: sequential_lr, milestones: [1], schedulers: "
                                   "[constant, " +
                                   cycle + "]}")}),
             Contains("changes the momentum"));
  const std::string plain = "{type: one_cycle_lr, cycle_momentum: false}";
  CHECK(obstacle({"scheduler=" + plain}) == "none");
  CHECK(obstacle({in_sequence(plain)}) == "none");
  for (const std::string loss : {"cross_entropy", "nll"}) {
    const std::string ignoring = "loss={type: " + loss + ", ignore_index: 3}";
    CHECK_THAT(obstacle({ignoring}), Contains("loss.ignore_index"));
    CHECK(obstacle({ignoring, "metrics=[]"}) == "none");
    CHECK(obstacle({"loss=" + loss}) == "none");
  }
}

TEST_CASE("CUDA graphs: models that a captured step cannot replay are reported", "[spec]") {
  spec::Experiment experiment = load_valid({}).experiment;
  experiment.trainer.activation_checkpointing = spec::ActivationCheckpointing::blocks;
  CHECK_THAT(spec::capture_obstacle(experiment, kOneGpu).value_or("none"),
             Contains("activation_checkpointing"));
  experiment.trainer.activation_checkpointing = spec::ActivationCheckpointing::automatic;
  CHECK(spec::capture_obstacle(experiment, kOneGpu) == std::nullopt);  // auto is not resolved yet
  experiment = load_valid({}).experiment;
  experiment.model.type = "torchscript";
  CHECK_THAT(spec::capture_obstacle(experiment, kOneGpu).value_or("none"),
             Contains("TorchScript model"));
  experiment = load_valid({}).experiment;
  experiment.distributed.type = spec::Strategy::data_parallel;
  CHECK_THAT(spec::capture_obstacle(experiment, kOneGpu).value_or("none"),
             Contains("data_parallel copies weights"));
}

TEST_CASE("CUDA graphs: plug-ins are captured only with cuda_graphs=true", "[spec]") {
  spec::Experiment experiment = load_valid({}).experiment;
  experiment.plugins = {"libmine.so"};
  CHECK_THAT(spec::capture_obstacle(experiment, kOneGpu).value_or("none"),
             Contains("cuda_graphs: true"));
  experiment.trainer.cuda_graphs = {true};
  CHECK(spec::capture_obstacle(experiment, kOneGpu) == std::nullopt);
}

TEST_CASE("CUDA graphs: cuda_graphs=true is an error if a step cannot be captured", "[spec]") {
  CHECK_THAT(capture_problems({"trainer.cuda_graphs=true"}),
             Contains("'cuda_graphs' is true, but the run is on a CPU") &&
                 Contains("write 'cuda_graphs: auto'"));
  CHECK_THAT(capture_problems({"trainer.cuda_graphs=auto"}), Equals(""));
  CHECK_THAT(capture_problems({"trainer.cuda_graphs=false"}), Equals(""));
  CHECK_THAT(problems_of({"trainer.cuda_graphs=true"}),
             Equals(""));  // it is only checked for training
  CHECK_THAT(problems_of({"trainer.cuda_graphs=2"}), Contains("cuda_graphs"));
  CHECK_THAT(problems_of({"+cuda_graphs=true"}), Contains("trainer.cuda_graphs"));
}
