#include "study/bench/baseline.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <fstream>
#include <map>
#include <string>
#include <vector>

using namespace trainctl;
using namespace trainctl::study;

namespace {

using Strings = std::vector<std::string>;

spec::Loaded loaded(const Strings& overrides = {}) {
  config::Diagnostics diagnostics;
  return spec::load_experiment_text("a.yaml",
                                    "name: one\n"
                                    "dataset: { train: { type: synthetic_digits } }\n"
                                    "model: { type: linear }\n"
                                    "optimizer: { type: sgd, lr: 0.1 }\n",
                                    overrides, diagnostics);
}

Json key(int cores) {
  Machine machine;
  machine.cpu_model = "Zen";
  machine.cores = cores;
  machine.memory_bytes = 8ULL << 30;
  return report::machine_key(machine);
}

report::Baseline made_with(const Strings& overrides) {
  report::Baseline baseline;
  baseline.path = "base.json";
  baseline.machine = key(2);
  baseline.config_resolved = resolved_config(loaded(overrides));
  baseline.rows.push_back({"as configured", {}, {}});
  return baseline;
}

Strings differences(const Strings& before, const Strings& now, const Strings& varied = {}) {
  return baseline_differences(made_with(before), loaded(now), key(2), varied);
}

void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

void write_run(const fs::path& folder, int exit_code) {
  write(folder / "result.json",
        fmt::format(R"({{"exit_code": {}, "wall_s": 9.5, "samples_per_s": 1000,
                       "train": {{"loss": 0.5}}, "val": {{"accuracy": 0.9, "loss": "nan"}},
                       "timing": {{"rss_mb": 400, "gpu_mem_mb": null}}}})",
                    exit_code));
  write(folder / "manifest.json", R"({"hardware": {"cpu": "Zen", "cores": 2,
                                      "memory_bytes": 8589934592, "gpus": []}})");
  write(folder / "config.resolved.yaml", resolved_config(loaded()));
  write(folder / "timing.csv", "epoch,wall_s,first_batch_s\n1,3,0.5\n2,2,0.1\n3,2.5,0.1\n");
}

}  // namespace

TEST_CASE("config_hash: names, loggers and axes do not count") {
  const std::string hash = config_hash(loaded(), {});
  CHECK(hash.size() == 16);
  CHECK(config_hash(loaded({"name=other"}), {}) == hash);
  CHECK(config_hash(loaded({"+loggers=[csv]"}), {}) == hash);
  CHECK(config_hash(loaded({"optimizer.lr=0.2"}), {}) != hash);
  const Strings axis{"optimizer.lr"};
  CHECK(config_hash(loaded({"optimizer.lr=0.2"}), axis) == config_hash(loaded(), axis));
}

TEST_CASE("baseline_differences: lists every value of another config") {
  CHECK(differences({}, {}).empty());
  CHECK(differences({}, {"name=other"}).empty());
  CHECK(differences({"optimizer.lr=0.3"}, {}) ==
        Strings{"optimizer.lr: 0.3 in the baseline, 0.1 in this bench"});
  CHECK(differences({"optimizer.lr=0.3"}, {}, {"optimizer.lr"}).empty());
}

TEST_CASE("baseline_differences: an axis of the baseline is not a difference") {
  report::Baseline baseline = made_with({"+loader.num_workers=4"});
  CHECK(baseline_differences(baseline, loaded(), key(2), {}).size() == 1);
  baseline.rows.front().settings = {{"loader.num_workers", "4"}};
  CHECK(baseline_differences(baseline, loaded(), key(2), {}).empty());
}

TEST_CASE("comparable_row: a baseline without axes is comparable only with its own settings") {
  report::Baseline baseline = made_with({"+loader.num_workers=4"});
  const report::BaselineRow* const only = &baseline.rows.front();
  CHECK(comparable_row(baseline, {}) == only);
  CHECK(comparable_row(baseline, {{"loader.num_workers", "4"}}) == only);
  CHECK(comparable_row(baseline, {{"loader.num_workers", "8"}}) == nullptr);
  CHECK(comparable_row(baseline, {{"no.such.key", "4"}}) == nullptr);
  CHECK(comparable_row(baseline, {{"loader.num_workers", "4"}, {"seed", "77"}}) == nullptr);
  baseline.config_resolved.clear();  // then only the user can decide
  CHECK(comparable_row(baseline, {{"loader.num_workers", "8"}}) == only);
}

TEST_CASE(
    "comparable_row: a row of a baseline with axes is comparable only with the same settings") {
  report::Baseline baseline = made_with({});
  baseline.rows.front().settings = {{"loader.num_workers", "0"}};
  baseline.rows.push_back({"num_workers=4", {{"loader.num_workers", "4"}}, {}});
  CHECK(comparable_row(baseline, {{"loader.num_workers", "4"}}) == &baseline.rows[1]);
  CHECK(comparable_row(baseline, {{"loader.num_workers", "8"}}) == nullptr);
}

TEST_CASE("baseline_differences: reports another machine and a missing config") {
  CHECK(baseline_differences(made_with({}), loaded(), key(16), {}) ==
        Strings{"cores: 2 in the baseline, 16 in this bench"});
  report::Baseline silent = made_with({});
  silent.config_resolved.clear();
  CHECK_THAT(baseline_differences(silent, loaded(), key(2), {}).front(),
             Contains("does not contain the config"));
  report::Baseline broken = made_with({});
  broken.config_resolved = "{ seed: [";
  CHECK_THROWS_WITH(baseline_differences(broken, loaded(), key(2), {}),
                    Contains("cannot parse the config in the baseline"));
}

TEST_CASE("load_baseline: a run folder is a baseline of one run") {
  TempFolder folder;
  write_run(folder.path(), 0);
  const report::Baseline baseline = load_baseline(folder.path());
  CHECK(baseline_differences(baseline, loaded(), key(2), {}).empty());
  REQUIRE(baseline.rows.size() == 1);
  const report::Samples& samples = baseline.rows.front().samples;
  CHECK(samples.at("total_s") == std::vector<double>{9.5});
  CHECK(samples.at("samples_per_s") == std::vector<double>{1000});
  CHECK(samples.at("epoch_s") == std::vector<double>{2.25});
  CHECK(samples.at("first_batch_s") == std::vector<double>{0.5});
  CHECK(samples.at("val/accuracy") == std::vector<double>{0.9});
  CHECK_FALSE(samples.contains("gpu_mem_mb"));
  CHECK_FALSE(samples.contains("startup_s"));
}

TEST_CASE("Baseline: a run folder pins the number of CPU threads that its run chose") {
  TempFolder folder;
  write_run(folder.path(), 0);
  CHECK_FALSE(load_baseline(folder.path()).num_threads);
  for (const char* value : {"0", "-3", "1e9", "\"two\"", "null"}) {
    CAPTURE(value);
    write(folder / "manifest.json", fmt::format(R"({{"num_threads": {{"value": {}}}}})", value));
    CHECK_FALSE(load_baseline(folder.path()).num_threads);
  }
  write(folder / "manifest.json",
        R"({"num_threads": {"value": 2, "why": "probe", "contended": true}})");
  CHECK(load_baseline(folder.path()).num_threads == 2);
}

TEST_CASE("Baseline: a run folder pins the memory format of images that its run chose") {
  TempFolder folder;
  write_run(folder.path(), 0);
  CHECK(load_baseline(folder.path()).channels_last.empty());
  for (const char* value : {"1", "\"yes\"", "null"}) {
    CAPTURE(value);
    write(folder / "manifest.json", fmt::format(R"({{"channels_last": {{"value": {}}}}})", value));
    CHECK(load_baseline(folder.path()).channels_last.empty());
  }
  for (const bool value : {true, false}) {
    write(folder / "manifest.json",
          fmt::format(R"({{"channels_last": {{"value": {}, "why": "probe"}}}})", value));
    CHECK(load_baseline(folder.path()).channels_last ==
          std::map<std::string, bool>{{layout_inputs(resolved_config(loaded())), value}});
  }
  write(folder / "config.resolved.yaml", "{ seed: [");
  CHECK_THROWS_WITH(load_baseline(folder.path()),
                    Contains("cannot parse the config in the baseline"));
}

TEST_CASE("Baseline: a memory format holds for the same model, training data and precision") {
  const auto inputs = [](const Strings& overrides) {
    return layout_inputs(resolved_config(loaded(overrides)));
  };
  const std::string as_it_is = inputs({});
  for (const char* same : {"name=other", "optimizer.lr=0.2", "+trainer.num_threads=2",
                           "+trainer.channels_last=true", "+loader.num_workers=4"})
    CHECK(inputs({same}) == as_it_is);
  for (const char* other : {"model=mlp", "dataset.train={type: synthetic_digits, samples: 7}",
                            "+trainer.accelerator=cpu"})
    CHECK(inputs({other}) != as_it_is);
  // Without the second key the check of the CPU rejects 16 bits where it has no instructions.
  const std::string any_cpu = "+trainer.allow_slow_precision=true";
  CHECK(inputs({"+trainer.precision=bf16-mixed", any_cpu}) != inputs({any_cpu}));
}

TEST_CASE("load_baseline: a folder without a successful run is an error") {
  TempFolder folder;
  const auto refused = [&] {
    try {
      (void)load_baseline(folder.path());
    } catch (const Error& error) {
      CHECK(error.exit_code() == 2);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refused(), Contains("result.json"));
  write_run(folder.path(), 6);
  CHECK_THAT(refused(), Contains("a run that has not succeeded"));
  write(folder / "result.json", "{\"exit_code\": 0");
  CHECK_THAT(refused(), Contains("truncated"));
}

TEST_CASE("load_baseline: a missing file is an error") {
  TempFolder folder;
  CHECK_THROWS_WITH(load_baseline(folder / "none.json"), Contains("none.json"));
}
