#include "study/tune/candidates.hpp"

#include "report/diagnosis/bottleneck.hpp"
#include "report/diagnosis/bottleneck_rules.hpp"
#include "spec/load.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace trainctl;
using study::LossRule;
using study::TuneCandidates;
using study::TuneSituation;

namespace {

using Strings = std::vector<std::string>;

spec::Experiment experiment_with(const Strings& overrides) {
  constexpr const char* kExperiment =
      "dataset: { train: { type: synthetic_digits }, val: { type: synthetic_digits } }\n"
      "model: { type: lenet }\n"
      "optimizer: { type: sgd, lr: 0.1 }\n";
  config::Diagnostics diagnostics;
  return spec::load_experiment_text("a.yaml", kExperiment, overrides, diagnostics).experiment;
}

/// Returns a situation on two cores with one loader thread.
TuneSituation situation(const std::string& verdict, const Strings& overrides = {}) {
  TuneSituation now{.experiment = experiment_with(overrides),
                    .verdict = {},
                    .facts = {},
                    .no_capture = "the run is on a CPU"};
  now.verdict.name = verdict;
  now.verdict.headroom = 2;
  now.facts.num_workers = now.experiment.loader.num_workers.value_or(1);
  now.facts.prefetch_factor = now.experiment.loader.prefetch_factor.value_or(2);
  now.facts.num_threads = now.experiment.trainer.num_threads.value_or(2);
  now.facts.cores = 2;
  now.facts.train_samples = 10'000;
  return now;
}

Strings tries(const TuneSituation& now) {
  Strings all;
  for (const auto& each : study::tune_candidates(now).tries)
    all.push_back(each.change.key + "=" + each.change.value);
  return all;
}

std::string why_not(const TuneSituation& now, const std::string& key) {
  for (const auto& one : study::tune_candidates(now).untried) {
    if (one.key == key) return one.why;
  }
  return "";
}

TuneSituation on_gpus(TuneSituation now, int ranks) {
  now.facts.on_gpu = true;
  now.facts.ranks = ranks;
  now.no_capture.clear();
  return now;
}

}  // namespace

TEST_CASE("tune: a run that waits for data gets more workers first") {
  const auto now = situation(
      "input_bound", {"loader.num_workers=0", "dataset.cache.mode=none", "trainer.num_threads=2"});
  CHECK(tries(now) == Strings{"loader.num_workers=1", "loader.num_workers=2",
                              "dataset.cache.mode=decoded", "dataset.cache.mode=encoded",
                              "trainer.num_threads=1"});
  CHECK_THAT(why_not(now, "loader.prefetch_factor"), Contains("without loader workers"));
}

TEST_CASE("tune: workers are limited to the cores, unless the cores are idle") {
  auto now = situation("input_bound", {"loader.num_workers=2", "dataset.cache.mode=decoded"});
  CHECK(tries(now) == Strings{"loader.prefetch_factor=4"});
  CHECK_THAT(why_not(now, "loader.num_workers"), Contains("2 loader workers on 2 cores"));
  CHECK_THAT(why_not(now, "dataset.cache.mode"), Contains("fastest cache mode"));
  now.facts.cpu_percent = 30;
  CHECK(tries(now).front() == "loader.num_workers=4");
}

TEST_CASE("tune: the key that the verdict suggests is tried first") {
  auto now = situation("input_bound", {"loader.num_workers=0", "dataset.cache.mode=none"});
  now.verdict.setting = "dataset.cache.mode=decoded";
  CHECK(tries(now).front() == "dataset.cache.mode=decoded");
  now.verdict.setting = "a.key.that.no.rule.has=1";
  CHECK(tries(now).front() == "loader.num_workers=1");
}

TEST_CASE("tune: the value that the verdict suggests is tried before its neighbors") {
  auto now = situation("input_bound", {"loader.num_workers=0", "dataset.cache.mode=none"});
  now.verdict.setting = "loader.num_workers=2";
  CHECK(tries(now)[0] == "loader.num_workers=2");
  CHECK(tries(now)[1] == "loader.num_workers=1");
  now = situation("input_bound", {"dataset.cache.mode=decoded"});
  now.verdict.setting = "dataset.cache.mode=encoded";
  CHECK_THAT(why_not(now, "dataset.cache.mode"), Contains("fastest cache mode"));
}

TEST_CASE("tune: the keys of the cause are tried before the others of the verdict") {
  auto now = situation("input_bound", {"loader.num_workers=1", "dataset.cache.mode=none"});
  CHECK(tries(now).front() == "loader.num_workers=2");
  for (const char* cause : {"slow_decode", "slow_disk"}) {
    now.verdict.cause = cause;
    CHECK(tries(now).front() == "dataset.cache.mode=decoded");
  }
  now = situation("compute_bound", {"trainer.num_threads=1"});
  now.allowed = study::allowed_keys("precision");
  now.verdict.cause = "full_precision";
  CHECK(tries(now).front() == "trainer.precision=bf16-mixed");
}

TEST_CASE("tune: a suggested key that tune does not know becomes advice") {
  auto now = situation("input_bound", {"loader.num_workers=1", "dataset.cache.mode=none"});
  now.verdict.cause = "slow_disk";
  now.verdict.setting = "loader.read_ahead=32";
  now.verdict.advice = "try loader.read_ahead=32";
  CHECK(study::tune_candidates(now).advice == Strings{"try loader.read_ahead=32"});
  now.verdict.setting = "dataset.cache.mode=encoded";
  CHECK(study::tune_candidates(now).advice.empty());
}

TEST_CASE("tune: slow_rank is the cause of a rule") {
  const auto known = report::rules();
  CHECK(std::ranges::find(known, std::string("slow_rank"), &report::Rule::cause) != known.end());
}

TEST_CASE("tune: more threads than cores are tried first for every verdict") {
  for (const char* verdict : {"input_bound", "compute_bound", "optimizer_bound", "host_bound",
                              "balanced", "a verdict of a later version"}) {
    INFO(verdict);
    const auto now = situation(verdict, {"trainer.num_threads=16"});
    const Strings all = tries(now);
    REQUIRE(all.size() >= 2);
    CHECK(all[0] == "trainer.num_threads=2");
    CHECK(all[1] == "trainer.num_threads=1");
  }
}

TEST_CASE("tune: detect_anomaly is turned off before anything else") {
  const auto now =
      situation("compute_bound", {"trainer.detect_anomaly=true", "trainer.num_threads=16"});
  CHECK(tries(now)[0] == "trainer.detect_anomaly=false");
  CHECK(tries(now)[1] == "trainer.num_threads=2");
}

TEST_CASE("tune: spinning threads next to a loader are reduced to one") {
  auto now = situation("input_bound", {"trainer.num_threads=2", "loader.num_workers=1"});
  now.verdict.cause = "spinning_threads";
  now.verdict.setting = "trainer.num_threads=1";
  CHECK(tries(now)[0] == "trainer.num_threads=1");
  now = situation("input_bound", {"loader.num_workers=1"});  // auto chose two threads
  now.verdict.cause = "spinning_threads";
  CHECK(tries(now)[0] == "trainer.num_threads=1");
}

TEST_CASE("tune: a rank that waits for data gets more workers, a slow rank gets nothing") {
  auto now = situation("communication_bound", {"loader.num_workers=0"});
  now.facts.num_workers = 0;
  now.verdict.cause = "slow_loading_rank";
  now.verdict.setting = "loader.num_workers=8";
  CHECK(tries(now)[0] == "loader.num_workers=8");
  now.verdict.cause = "slow_rank";
  CHECK(tries(now).empty());
}

TEST_CASE("tune: a slow environment variable is reported as advice") {
  auto now = situation("compute_bound");
  now.facts.environment = "OMP_WAIT_POLICY=active";
  CHECK(study::tune_candidates(now).advice ==
        Strings{"OMP_WAIT_POLICY=active is set and slows down every run: unset it"});
}

TEST_CASE("tune: num_threads is not tried if auto measures it") {
  const auto now = situation("compute_bound");
  CHECK_THAT(why_not(now, "trainer.num_threads"), Contains("auto measures the best number"));
  CHECK(tries(now) == Strings{"trainer.channels_last=true"});
}

TEST_CASE("tune: channels_last is not tried for a model without convolutions") {
  const auto now = situation("compute_bound", {"model=linear", "trainer.num_threads=1"});
  CHECK(tries(now) == Strings{"trainer.num_threads=2"});
  CHECK_THAT(why_not(now, "trainer.channels_last"), Contains("'linear' has no convolutions"));
}

TEST_CASE("tune: channels_last offers the value that auto has not chosen") {
  auto now = situation("compute_bound");
  now.facts.channels_last = true;
  CHECK(tries(now) == Strings{"trainer.channels_last=false"});
  const auto found = study::tune_candidates(now).tries;
  CHECK(found.front().change.before == "auto");
  CHECK_THAT(found.front().reason, Contains("auto chose channels_last"));
  CHECK(tries(situation("compute_bound", {"trainer.channels_last=false"})) ==
        Strings{"trainer.channels_last=true"});
}

TEST_CASE("tune: keys that change the training are tried only with --allow") {
  auto now = situation("compute_bound");
  CHECK_THAT(why_not(now, "loader.batch_size"), Contains("--allow batch_size"));
  CHECK_THAT(why_not(now, "trainer.precision"), Contains("--allow precision"));
  now.allowed = study::allowed_keys("batch_size,trainer.precision");
  CHECK(tries(now) == Strings{"trainer.channels_last=true", "trainer.precision=bf16-mixed",
                              "loader.batch_size=128"});
  now.facts.train_samples = 100;
  CHECK_THAT(why_not(now, "loader.batch_size"), Contains("too few samples for a larger batch"));
  CHECK(study::allowed_keys("").empty());
  CHECK_THROWS_WITH(study::allowed_keys("lr"),
                    Contains("--allow must be one of ") && Contains("got 'lr'"));
}

TEST_CASE("tune: on a GPU copies, CUDA graphs and 16-bit precision are tried, threads are not") {
  auto now = on_gpus(
      situation("transfer_bound", {"loader.pin_memory=false", "dataset.cache.mode=none"}), 1);
  CHECK(tries(now)[0] == "loader.pin_memory=true");
  CHECK(tries(now)[1] == "dataset.cache.mode=device");
  now = on_gpus(situation("host_bound", {"trainer.cuda_graphs=false"}), 1);
  CHECK(tries(now).front() == "trainer.cuda_graphs=true");
  CHECK_THAT(why_not(now, "trainer.num_threads"), Contains("GPU"));
  now = on_gpus(situation("host_bound"), 1);
  CHECK_THAT(why_not(now, "trainer.cuda_graphs"), Contains("already recorded"));
  CHECK_THAT(why_not(on_gpus(now, 4), "trainer.cuda_graphs"), Contains("already recorded"));
  now.experiment.plugins = {"libmine.so"};  // `auto` does not record them
  CHECK(tries(now).front() == "trainer.cuda_graphs=true");
  now.no_capture = "a TorchScript model may change its operations during training";
  CHECK(why_not(now, "trainer.cuda_graphs") == now.no_capture);
}

TEST_CASE("tune: smaller and larger buckets are tried only if there are several ranks") {
  auto now = situation("communication_bound");
  CHECK_THAT(why_not(now, "distributed.bucket_cap_mb"), Contains("single rank"));
  now.facts.ranks = 2;
  CHECK(tries(now) == Strings{"distributed.bucket_cap_mb=10", "distributed.bucket_cap_mb=50"});
}

TEST_CASE("tune: no key is tried for a slow rank") {
  auto now = situation("communication_bound");
  now.facts.ranks = 2;
  now.facts.slowest_delay = 1.5;
  now.verdict.cause = "slow_rank";
  const TuneCandidates found = study::tune_candidates(now);
  CHECK(found.tries.empty());
  REQUIRE(found.advice.size() == 1);
  CHECK_THAT(found.advice[0], Contains("150 % longer"));
  now.verdict.cause = "slow_link";
  CHECK_FALSE(tries(now).empty());
}

TEST_CASE("tune: intervals of validation and saving are advice unless allowed") {
  for (const auto& [verdict, key] :
       {std::pair("evaluation_bound", "trainer.check_val_every_n_epoch"),
        std::pair("checkpoint_bound", "checkpoint.every_n_epochs")}) {
    auto now = situation(verdict);
    now.verdict.advice = "less often";
    CHECK_THAT(why_not(now, key), Contains("--allow"));
    CHECK(study::tune_candidates(now).advice == Strings{"less often"});
    now.allowed = study::allowed_keys(key);
    CHECK(tries(now) == Strings{key + std::string("=2")});
    now.whole_epochs = false;
    CHECK_THAT(why_not(now, key), Contains("shortened epochs"));
  }
}

TEST_CASE("tune: keys that reduce waits are skipped if waits are negligible") {
  auto now = situation("balanced", {"loader.num_workers=8"});
  CHECK(tries(now).front() == "loader.num_workers=2");
  now.verdict.headroom = 1.02;
  CHECK_THAT(why_not(now, "loader.num_workers"), Contains("1.02x"));
}

TEST_CASE("tune: every limit that a verdict can report has a rule") {
  using report::BottleneckKind;
  for (const BottleneckKind kind :
       {BottleneckKind::input, BottleneckKind::transfer, BottleneckKind::communication,
        BottleneckKind::checkpoint, BottleneckKind::compute, BottleneckKind::optimizer,
        BottleneckKind::evaluation, BottleneckKind::host, BottleneckKind::balanced}) {
    INFO(report::name_of(kind));
    const TuneCandidates found = study::tune_candidates(situation(report::name_of(kind)));
    CHECK(found.tries.size() + found.untried.size() > 0);
  }
}

TEST_CASE("tune: every tried value is valid in the experiment file") {
  int tried = 0;
  for (const char* verdict :
       {"input_bound", "transfer_bound", "communication_bound", "evaluation_bound",
        "checkpoint_bound", "compute_bound", "host_bound", "balanced"}) {
    for (const bool gpu : {false, true}) {
      auto now = situation(
          verdict, {"loader.num_workers=0", "dataset.cache.mode=none", "trainer.num_threads=16",
                    "loader.pin_memory=false", "trainer.cuda_graphs=false"});
      now.facts.ranks = 2;
      now.allowed = study::allowed_keys("batch_size,check_val_every_n_epoch,every_n_epochs");
      if (gpu) now = on_gpus(now, 2);
      for (const auto& each : study::tune_candidates(now).tries) {
        INFO(each.change.key << "=" << each.change.value);
        CHECK_NOTHROW(experiment_with({each.change.key + "=" + each.change.value}));
        CHECK_FALSE(each.reason.empty());
        CHECK_FALSE(each.change.before.empty());
        ++tried;
      }
    }
  }
  CHECK(tried > 30);
}

TEST_CASE("loss_rule_of: only keys that change the order of sums may change losses slightly") {
  CHECK(study::loss_rule_of("loader.num_workers") == LossRule::same);
  CHECK(study::loss_rule_of("dataset.cache.mode") == LossRule::same);
  CHECK(study::loss_rule_of("trainer.num_threads") == LossRule::near);
  CHECK(study::loss_rule_of("distributed.bucket_cap_mb") == LossRule::near);
  CHECK(study::loss_rule_of("loader.batch_size") == LossRule::other);
}
