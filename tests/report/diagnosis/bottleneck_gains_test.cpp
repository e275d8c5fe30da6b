#include "report/diagnosis/bottleneck_rules.hpp"
#include "report/invented.hpp"
#include "report/text/run_summary.hpp"
#include "report/timing_fixtures.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <string>

using namespace timing_fixtures;

namespace {

std::string cause_and_setting(const Bottleneck& found) { return found.cause + " " + found.setting; }

/// Returns a quiet run of 100 steps of 0.1 s on one process with four cores, whose steps were
/// replayed.
BottleneckContext replayed() {
  BottleneckContext with = context();
  with.levers.precision = "32-true";
  with.levers.native_bf16 = false;
  with.replay_step_s = 0.1;
  with.replay_steps = 20;
  with.larger_batch = ReplayedSetting{512, 0.8};
  with.other_threads = ReplayedSetting{4, 0.1};
  return with;
}

/// Returns the speedup if the passes of kAtWork take `ratio` of their time.
double speedup(double ratio) { return 10 / (10 * ratio); }

}  // namespace

TEST_CASE("Bottleneck: settings count as compared only by a rule or a replay") {
  BottleneckContext unmeasured = context();
  unmeasured.levers.threads_probed = false;
  events::Timing busy = kAtWork;
  busy.cpu_percent = 390;
  const Bottleneck found = find_bottleneck(busy, unmeasured);
  CHECK(found.cause == "model_at_work");
  CHECK_FALSE(found.gain.high);
  CHECK_THAT(found.advice, Contains("this run did not test") && Contains("loader.batch_size") &&
                               Contains("trainer.num_threads") && Contains("trainer.precision") &&
                               !Contains("detect_anomaly"));
  const Bottleneck compared = find_bottleneck(kAtWork, replayed());
  CHECK(compared.cause == "model_at_work");
  CHECK_THAT(compared.advice,
             Contains("a batch of 512 (") && Contains("4 threads (") && !Contains("did not test"));
  for (const SettingCheck& check : compared.checks) CHECK(check.done);
}

TEST_CASE("Bottleneck: advice without a measured bound has no headroom") {
  BottleneckContext with = replayed();
  const Bottleneck devices = find_bottleneck(kAtWork, with);
  CHECK(devices.cause == "model_at_work");
  CHECK(devices.next == Next::more_devices);
  CHECK_THAT(devices.advice, Contains("more devices may help"));
  CHECK_FALSE(devices.gain.high);
  CHECK(to_json(devices)["headroom"].is_null());
  for (const SettingCheck& check : devices.checks) {
    if (check.key == "loader.batch_size") REQUIRE(check.gain);  // the comparisons are still listed
  }
  with.world_size = 4;  // the machine has four cores
  const Bottleneck settings = find_bottleneck(kAtWork, with);
  CHECK(settings.cause == "model_at_work");
  CHECK(settings.next == Next::tune);
  CHECK_THAT(settings.advice, !Contains("devices") && Contains("a batch of 512 ("));
  REQUIRE(settings.gain.high);
  CHECK(*settings.gain.high < 1.3);
}

TEST_CASE("Bottleneck: a setting with a small gain is listed as one that may help") {
  BottleneckContext with = replayed();
  with.larger_batch = ReplayedSetting{512, 0.6};
  const Bottleneck found = find_bottleneck(kAtWork, with);
  CHECK(found.cause == "model_at_work");
  CHECK_THAT(found.advice, Contains("settings that may help: a batch of 512 (1.1") &&
                               Contains("; tried without a clear gain: 4 threads ("));
}

TEST_CASE("Bottleneck: a balanced run lists the settings that were not compared") {
  const events::Timing even{.wall_s = 10, .forward_s = 3, .optimizer_s = 3.5, .eval_s = 2};
  const Bottleneck found = find_bottleneck(even, context());
  CHECK(found.cause == "nothing_to_fix");
  CHECK_THAT(found.advice, Contains("this run did not test") && Contains("loader.batch_size"));
}

TEST_CASE("small_batch: a larger batch is proposed if a replay shows that it is faster") {
  BottleneckContext with = replayed();
  with.batch_size = 1;
  with.larger_batch = ReplayedSetting{8, 0.104};
  events::Timing timing = kAtWork;
  timing.samples = 100;
  const Bottleneck found = find_bottleneck(timing, with);
  CHECK(cause_and_setting(found) == "small_batch loader.batch_size=8");
  REQUIRE(found.gain.high);
  CHECK(found.gain.low > 4);
  CHECK(*found.gain.high <= 8);
}

TEST_CASE("small_batch: without a replay, the gain is at most the factor of the batch size") {
  BottleneckContext with = context();
  with.batch_size = 1;
  events::Timing timing = kAtWork;
  timing.samples = 50000;
  const Bottleneck found = find_bottleneck(timing, with);
  CHECK(cause_and_setting(found) == "small_batch loader.batch_size=8");
  CHECK(found.gain.high == Approx(8));
  CHECK_FALSE(found.gain.replayed);
}

TEST_CASE("Bottleneck: a larger batch leaves ten steps per epoch, or else is doubled") {
  BottleneckContext with = context();
  with.larger_batch = ReplayedSetting{512, 0.1};
  with.replay_step_s = 0.1;
  with.train_samples = 3000;
  CHECK(find_bottleneck(kAtWork, with).setting == "loader.batch_size=256");
  with.train_samples = 128;
  CHECK(find_bottleneck(kAtWork, with).setting == "loader.batch_size=128");
  with.train_samples = 127;
  CHECK(find_bottleneck(kAtWork, with).setting.empty());
}

TEST_CASE("few_threads: all cores are proposed if one thread runs next to an idle core") {
  BottleneckContext with = replayed();
  with.other_threads = ReplayedSetting{4, 0.05};
  const Bottleneck found = find_bottleneck(kAtWork, with);
  CHECK(cause_and_setting(found) == "few_threads trainer.num_threads=4");
  REQUIRE(found.gain.high);
  CHECK(found.gain.low < speedup(0.5));
  CHECK(*found.gain.high > speedup(0.5));

  BottleneckContext unmeasured = context();
  unmeasured.levers.threads_probed = false;
  const Bottleneck by_rule = find_bottleneck(kAtWork, unmeasured);
  CHECK(by_rule.cause == "few_threads");
  CHECK(by_rule.gain.high == Approx(4));
  unmeasured.levers.threads_probed = true;
  CHECK(find_bottleneck(kAtWork, unmeasured).cause == "model_at_work");
  unmeasured.levers.threads_probed = false;
  events::Timing busy = kAtWork;
  busy.cpu_percent = 390;
  CHECK(find_bottleneck(busy, unmeasured).cause == "model_at_work");
}

TEST_CASE("Bottleneck: a core that other processes use is not idle") {
  BottleneckContext with = context();
  with.levers.threads_probed = false;
  with.levers.cpu_cores = with.usage->cores = 2;
  with.usage->outside_cores = 0.5;  // the run has one thread, another process has one too
  with.usage->idle_cores = 0.01;
  with.usage->core_wait = 0.01;
  const Bottleneck found = find_bottleneck(kAtWork, with);
  CHECK(found.cause == "model_at_work");
  CHECK(found.setting.empty());
  with.usage->outside_cores = 0.02;
  with.usage->idle_cores = 0.48;
  CHECK(cause_and_setting(find_bottleneck(kAtWork, with)) == "few_threads trainer.num_threads=2");
  with.usage->idle_cores.reset();  // the kernel does not report it
  CHECK(cause_and_setting(find_bottleneck(kAtWork, with)) == "few_threads trainer.num_threads=2");
}

TEST_CASE("Bottleneck: oversubscription precedes other processes but not stolen time") {
  BottleneckContext with = context();
  with.num_threads = 16;
  with.levers.cpu_cores = with.usage->cores = 2;
  with.usage->outside_cores = 0.12;
  with.usage->idle_cores = 0.0;
  with.usage->core_wait = 0.8;
  with.usage->cpu_stalled = 0.9;
  const Bottleneck threads = find_bottleneck(kAtWork, with);
  CHECK(cause_and_setting(threads) == "threads_oversubscribed trainer.num_threads=2");
  CHECK(std::string(name_of(threads.limit)) == "host_bound");
  CHECK(std::ranges::any_of(threads.evidence, [](const Evidence& each) {
    return each.name == "outside_cores" && each.in_summary;
  }));
  with.num_threads = 1;
  with.num_workers = 12;
  with.usage->loader_cores = 1.2;
  CHECK(find_bottleneck(kAtWork, with).cause == "workers_oversubscribed");
  with.usage->stolen_cores = 0.2;  // no setting of the run causes stolen time
  CHECK(find_bottleneck(kAtWork, with).cause == "cores_taken");
  with.usage->stolen_cores.reset();
  with.num_workers = 1;
  CHECK(find_bottleneck(kAtWork, with).cause == "cores_taken");
}

TEST_CASE("threads_oversubscribed: the gain is bounded only by a replay with fewer threads") {
  BottleneckContext with = replayed();
  with.num_threads = 16;
  with.usage->involuntary_switches_s = 3000;
  with.other_threads = ReplayedSetting{4, 0.0125};
  const Bottleneck found = find_bottleneck(kAtWork, with);
  CHECK(cause_and_setting(found) == "threads_oversubscribed trainer.num_threads=4");
  REQUIRE(found.gain.high);
  CHECK(found.gain.low < 8);
  CHECK(*found.gain.high > 8);
  with.other_threads.reset();
  const Bottleneck unmeasured = find_bottleneck(kAtWork, with);
  CHECK_FALSE(unmeasured.gain.high);
  CHECK_THAT(text_of(unmeasured.gain), Contains("unknown"));
}

TEST_CASE("anomaly_checks: found in every part of the step that takes the time") {
  for (const auto part :
       {&events::Timing::forward_s, &events::Timing::optimizer_s, &events::Timing::other_s}) {
    BottleneckContext with = context();
    with.levers.detect_anomaly = true;
    const Bottleneck found = find_bottleneck(timing(part, 6), with);
    CHECK(cause_and_setting(found) == "anomaly_checks trainer.detect_anomaly=false");
    CHECK_FALSE(found.gain.high);
  }
  BottleneckContext with = replayed();
  with.levers.detect_anomaly = true;
  with.replay_step_s = 0.0125;  // a replay has no checks
  const Bottleneck found = find_bottleneck(kAtWork, with);
  REQUIRE(found.gain.high);
  CHECK(found.gain.low < 8);
  CHECK(*found.gain.high > 8);
  CHECK(found.perfect_loader->replayed == 0);  // the loader does not cause the checks
}

TEST_CASE("bf16_unused: proposed on a CPU if a replay with bf16 is faster") {
  BottleneckContext with = replayed();
  with.levers.native_bf16 = true;
  CHECK_FALSE(find_bottleneck(kAtWork, with).gain.high);  // bf16 was not compared
  with.bf16_step_s = 0.04;
  CHECK(cause_and_setting(find_bottleneck(kAtWork, with)) ==
        "bf16_unused trainer.precision=bf16-mixed");
  with.bf16_step_s = 0.4;
  CHECK(find_bottleneck(kAtWork, with).cause == "model_at_work");
}

TEST_CASE("Bottleneck: with loader threads on busy cores, only a replay bounds the gain") {
  BottleneckContext with = context();
  events::Timing busy = kStarved;
  busy.cpu_percent = 390;
  with.num_workers = 4;
  CHECK_FALSE(find_bottleneck(busy, with).gain.high);
  with.replay_step_s = 0.01;  // the times give 0.02
  const Bottleneck found = find_bottleneck(busy, with);
  REQUIRE(found.gain.high);
  CHECK(*found.gain.high > 10);
}

TEST_CASE("Bottleneck: the gain of a better loader includes loading for validation") {
  events::Timing timing{
      .wall_s = 10, .data_wait_s = 4, .forward_s = 3, .eval_s = 3, .samples = 6400};
  timing.cpu_percent = 100;
  CHECK(find_bottleneck(timing, context()).gain.high == Approx(10 / 3.0));
}

TEST_CASE("machine_busy: reported first, with the share of cores that other processes use") {
  for (const events::Timing& timing : {kStarved, kAtWork}) {
    BottleneckContext with = context();
    with.usage->memory_stalled = 0.5;
    with.usage->outside_cores = 0.4;
    with.usage->stolen_cores = 0.05;
    with.usage->idle_cores = 0.02;
    const Bottleneck found = find_bottleneck(timing, with);
    CHECK(std::string(name_of(found.limit)) == "machine_busy");
    CHECK_THAT(found.advice, Contains("45 %"));
    CHECK(found.share == Approx(0.45));
    CHECK_FALSE(found.gain.high);
    CHECK(found.next == Next::run_again);
    REQUIRE(found.otherwise.size() == 1);
    CHECK(found.otherwise.front().cause == "memory_pressure");
    CHECK(to_json(found)["otherwise"]["cause"] == "memory_pressure");
    with.usage->idle_cores = 0.4;
    CHECK(std::string(name_of(find_bottleneck(timing, with).limit)) != "machine_busy");
    with.usage->core_wait = 0.2;
    CHECK(std::string(name_of(find_bottleneck(timing, with).limit)) == "machine_busy");
    with.usage->idle_cores = 0.02;
    with.usage->core_wait = 0.01;
    CHECK(std::string(name_of(find_bottleneck(timing, with).limit)) != "machine_busy");
    with.usage->core_wait.reset();
    with.usage->span_s = 0.2;
    CHECK(std::string(name_of(find_bottleneck(timing, with).limit)) != "machine_busy");
  }
}

TEST_CASE("Bottleneck: every cause has advice, even if no setting is accepted") {
  events::Timing timing{.wall_s = 10, .data_wait_s = 1, .forward_s = 5, .eval_s = 1, .samples = 10};
  BottleneckContext with = context();
  with.straggler = RankRow{.rank = 3, .host = "node3", .slowdown = 0.5};
  with.usage->outside_cores = 0.5;
  for (const bool on_gpu : {false, true}) {
    with.on_gpu = on_gpu;
    for (const Rule& rule : rules()) {
      CAPTURE(rule.cause, on_gpu);
      const BottleneckInputs facts{timing, with, rule.part.value_or(BottleneckKind::compute), 5};
      const std::vector<Proposal> proposals = rule.propose(facts);
      REQUIRE_FALSE(proposals.empty());
      for (const Proposal& each : proposals) CHECK_FALSE(each.sentence.empty());
    }
  }
}

TEST_CASE("Bottleneck: a verdict keeps its advice if all its settings are rejected") {
  BottleneckContext with = context();
  with.levers.accepts = [](const std::string&) { return false; };
  for (const auto part :
       {&events::Timing::data_wait_s, &events::Timing::h2d_s, &events::Timing::allreduce_exposed_s,
        &events::Timing::checkpoint_s, &events::Timing::eval_s, &events::Timing::optimizer_s,
        &events::Timing::other_s, &events::Timing::forward_s}) {
    const Bottleneck found = find_bottleneck(timing(part, 6), with);
    CAPTURE(found.cause);
    CHECK(found.setting.empty());
    CHECK_FALSE(found.advice.empty());
  }
}

TEST_CASE("run summary: the next command depends on the verdict") {
  RunRecord record = invented::run();
  const auto next = [&](const report::RunResult& ending) {
    const std::string text = summary_text(record, ending, {});
    return text.substr(text.rfind("next"));
  };
  report::RunResult ending = invented::ending();
  CHECK_THAT(next(ending), Contains("bench configs/mnist/ffn.yaml --devices 1,2"));
  record.started->num_threads = 1;
  ending.levers.cpu_cores = 1;  // more devices would share the core
  CHECK_THAT(next(ending), Contains("trainctl tune configs/mnist/ffn.yaml"));
  for (events::EpochEnded& epoch : record.epochs)
    epoch.usage = events::Usage{.span_s = 2, .cores = 1, .outside_cores = 0.6, .idle_cores = 0.0};
  CHECK_THAT(next(ending), Contains("trainctl run configs/mnist/ffn.yaml"));
  for (events::EpochEnded& epoch : record.epochs) {
    epoch.usage = {};
    epoch.timing.allreduce_exposed_s += 8;
    epoch.timing.wall_s += 8;
  }
  record.hellos[1] = record.hellos.at(0);
  record.rank_epochs[0] = {{.steps = 10, .wall_s = 3, .data_wait_s = 0, .step_s = 1}};
  record.rank_epochs[1] = {{.steps = 10, .wall_s = 3, .data_wait_s = 0, .step_s = 2.9}};
  const std::string slow = summary_text(record, ending, {});
  CHECK_THAT(slow,
             Contains("disk of the machine of rank 1 (node7)") && Contains("trainctl doctor"));
  CHECK_THAT(slow, !Contains("--workers"));
}
