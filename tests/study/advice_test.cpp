#include "report/diagnosis/bottleneck.hpp"
#include "spec/load.hpp"
#include "study/run/run_ending.hpp"
#include "support/catch.hpp"

#include <array>
#include <string>

using namespace trainctl;
using report::BottleneckContext;
using report::find_bottleneck;

namespace {

constexpr const char* kExperiment =
    "dataset: { train: { type: synthetic_digits }, val: { type: synthetic_digits } }\n"
    "model: { type: linear }\n"
    "optimizer: { type: sgd, lr: 0.1 }\n";

/// Returns runs that spend all their time in one part.
std::vector<events::Timing> one_sided() {
  constexpr std::array kParts{&events::Timing::data_wait_s,  &events::Timing::h2d_s,
                              &events::Timing::forward_s,    &events::Timing::allreduce_exposed_s,
                              &events::Timing::optimizer_s,  &events::Timing::eval_s,
                              &events::Timing::checkpoint_s, &events::Timing::other_s};
  std::vector<events::Timing> timings;
  for (const auto part : kParts) {
    timings.push_back({.wall_s = 10});
    timings.back().*part = 9;
  }
  return timings;
}

std::vector<std::string> cache_modes() {
  const auto names = enum_names(spec::CacheMode{});
  return {names.begin(), names.end()};
}

std::vector<BottleneckContext> contexts() {
  std::vector<BottleneckContext> all;
  for (const std::int64_t epochs : {1, 2, 10}) {
    for (const int workers : {0, 8, 256}) {
      for (const std::int64_t batch : {64, 1 << 20, 1 << 24}) {
        for (const bool on_gpu : {false, true}) {
          for (const std::string& mode : cache_modes()) {
            all.push_back({.num_workers = workers,
                           .batch_size = batch,
                           .train_samples = std::int64_t{1} << 40,
                           .max_epochs = epochs,
                           .on_gpu = on_gpu,
                           .levers = {.cpu_cores = workers == 256 ? 512 : 8,
                                      .cache_mode = mode,
                                      .cache_modes = cache_modes()}});
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("advice: every proposed setting is valid in the experiment file") {
  int proposed = 0;
  for (const BottleneckContext& context : contexts()) {
    for (const events::Timing& timing : one_sided()) {
      const report::Bottleneck found = find_bottleneck(timing, context);
      if (found.setting.empty()) continue;
      ++proposed;
      config::Diagnostics diagnostics;
      const std::vector<std::string> overrides{
          fmt::format("trainer.max_epochs={}", context.max_epochs), found.setting};
      CHECK_NOTHROW(spec::load_experiment_text("a.yaml", kExperiment, overrides, diagnostics));
      INFO(found.setting);
      CHECK_THAT(diagnostics.render(config::Color::off),
                 !Contains("ends before its first validation"));
    }
  }
  CHECK(proposed > 100);
}

TEST_CASE("advice: settings that the run's experiment rejects are not accepted") {
  config::Diagnostics diagnostics;
  const spec::Loaded loaded = spec::load_experiment_text("a.yaml", kExperiment, {}, diagnostics);
  const report::AdviceSettings levers = study::levers(loaded, {.cores = 4});
  CHECK(levers.cpu_cores == 4);
  CHECK(levers.checkpoint_async);
  for (const char* setting :
       {"loader.num_workers=4", "loader.read_ahead=32", "loader.pin_memory=true",
        "dataset.cache.budget=25%", "dataset.cache.mode=encoded", "trainer.num_threads=2",
        "distributed.bucket_cap_mb=3", "checkpoint.async=true", "checkpoint.every_t=10m",
        "checkpoint.every_n_steps=50", "checkpoint.on_best=false", "trainer.detect_anomaly=false",
        "trainer.log_every_n_steps=50"}) {
    INFO(setting);
    CHECK(levers.accepts(setting));
  }
  for (const char* setting :
       {"loader.num_workers=-1", "loader.num_worker=1", "nonsense", "=", ""}) {
    INFO(setting);
    CHECK_FALSE(levers.accepts(setting));
  }
}

TEST_CASE("advice: a run of one epoch gets no advice about validation and checkpoints") {
  const BottleneckContext context{.max_epochs = 1, .levers = {.cpu_cores = 8}};
  CHECK(find_bottleneck({.wall_s = 10, .checkpoint_s = 9}, context).setting.empty());
  CHECK(find_bottleneck({.wall_s = 10, .eval_s = 9}, context).setting.empty());
}

TEST_CASE("advice: proposes a cache if one is available and unused") {
  BottleneckContext context{.num_workers = 8, .levers = {.cpu_cores = 8, .cache_mode = "none"}};
  const events::Timing starved{.wall_s = 10, .data_wait_s = 9};
  CHECK(find_bottleneck(starved, context).setting.empty());
  context.levers.cache_modes = {"none", "decoded"};
  CHECK(find_bottleneck(starved, context).setting == "dataset.cache.mode=decoded");
  context.levers.cache_mode = "decoded";
  CHECK(find_bottleneck(starved, context).setting.empty());
}
