#include "report/diagnosis/bottleneck.hpp"

#include "report/diagnosis/bottleneck_rules.hpp"
#include "report/invented.hpp"
#include "report/record/run_result.hpp"
#include "report/text/run_summary.hpp"
#include "report/timing_fixtures.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

using namespace timing_fixtures;

namespace {

bool is_shown(const Bottleneck& found, const std::string& name) {
  return std::ranges::any_of(
      found.evidence, [&](const Evidence& each) { return each.name == name && each.in_summary; });
}

}  // namespace

TEST_CASE("perfect loader: the speedup removes the waits for batches and nothing else") {
  const Bottleneck found = find_bottleneck(kStarved, context());
  REQUIRE(found.perfect_loader);
  CHECK(found.perfect_loader->speedup == Approx(5));
  CHECK(found.gain.high == Approx(5));
  CHECK(found.perfect_loader->now_s == Approx(0.1));
  CHECK(found.perfect_loader->step_s == Approx(0.02));
  CHECK_THAT(text_of(*found.perfect_loader),
             StartsWith("if data loading took no time, the run would be 5.00x as fast as now "
                        "(computed from the step"));
  BottleneckContext unknown = context();
  unknown.batch_size = 0;
  CHECK_FALSE(find_bottleneck(kStarved, unknown).perfect_loader);
}

TEST_CASE(
    "perfect loader: a replay includes the cost of loader threads and never lowers the speedup") {
  BottleneckContext with = context();
  with.replay_step_s = 0.01;  // the passes of the 100 batches took 2 s
  with.replay_steps = 20;
  with.usage->loader_cores = 0.5;
  const Bottleneck found = find_bottleneck(kStarved, with);
  CHECK(found.perfect_loader->speedup == Approx(10));
  CHECK(found.perfect_loader->replayed == 20);
  CHECK_THAT(text_of(*found.perfect_loader), Contains("measured in 20 steps on the same batch"));
  with.usage->loader_cores = 0.05;  // the loader threads computed for 0.5 s
  CHECK(find_bottleneck(kStarved, with).perfect_loader->speedup == Approx(10 / 1.5));
  with.replay_step_s = 5;
  CHECK(find_bottleneck(kStarved, with).perfect_loader->speedup == Approx(5));
}

TEST_CASE("perfect loader: a small gain is reported as no bottleneck") {
  const Bottleneck found = find_bottleneck(timing(&events::Timing::data_wait_s, 0.2), context());
  CHECK_THAT(text_of(*found.perfect_loader), Contains("), so data loading is not the bottleneck"));
}

TEST_CASE("bottleneck_text: names the part and its share, or the diagnosis of the cause") {
  CHECK(bottleneck_text("compute_bound", "model_at_work", 0.59) ==
        "compute: forward and backward take 59 % of the epoch time");
  CHECK(bottleneck_text("balanced", "nothing_to_fix", 0.38) ==
        "balanced: no part dominates; the largest takes 38 % of the epoch time");
  CHECK(bottleneck_text("host_bound", "threads_oversubscribed", 0.7) ==
        "host: there are more compute threads than cores, so they compete for CPU time");
  CHECK(bottleneck_text("later_bound", "", 0.7) == "later");
}

TEST_CASE("evidence: has the numbers of the verdict and omits unknown ones") {
  const Bottleneck found = find_bottleneck(kStarved, context());
  CHECK(is_shown(found, "data_wait_step"));
  CHECK(is_shown(found, "loader_rate"));
  CHECK_FALSE(is_shown(found, "memory_taken"));
  BottleneckContext without_usage = context();
  without_usage.usage.reset();
  for (const Evidence& each : find_bottleneck(kStarved, without_usage).evidence) {
    CHECK(each.name != "io_stalled");
    CHECK_FALSE(each.text.empty());
  }
}

TEST_CASE("sum_usage: epochs are weighted by their time, and without any usage there is no sum") {
  auto a = invented::epoch(0);
  auto b = invented::epoch(1);
  CHECK_FALSE(sum_usage(std::vector{a, b}));
  a.usage = events::Usage{.span_s = 1, .cores = 2, .io_stalled = 0.8, .major_faults_s = 10};
  b.usage = events::Usage{.span_s = 3, .cores = 2, .io_stalled = 0.4, .memory_taken = 0.7};
  const auto sum = sum_usage(std::vector{a, b});
  REQUIRE(sum);
  CHECK(sum->span_s == 4);
  CHECK(*sum->io_stalled == Approx(0.5));
  CHECK(sum->major_faults_s == Approx(2.5));
  CHECK(*sum->memory_taken == Approx(0.7));
  CHECK_FALSE(sum->cpu_stalled);
}

TEST_CASE("sum_usage: missing values are skipped, and throttling must last most of the time") {
  auto a = invented::epoch(0);
  auto b = invented::epoch(1);
  a.usage = events::Usage{.span_s = 1, .cpu_stalled = 0.6, .gpu_throttle = "power"};
  b.usage = events::Usage{.span_s = 3};
  const auto mostly_free = sum_usage(std::vector{a, b});
  REQUIRE(mostly_free);
  CHECK(*mostly_free->cpu_stalled == Approx(0.6));
  CHECK(mostly_free->gpu_throttle.empty());
  a.usage->span_s = 4;
  CHECK(sum_usage(std::vector{a, b})->gpu_throttle == "power");
}

TEST_CASE("BottleneckInputs: a resumed epoch counts only the batches of this process") {
  auto half = timing(&events::Timing::data_wait_s, 8);
  half.samples_per_s = 320;  // these 10 s trained on 3200 of its 6400 samples
  const BottleneckContext quiet = context();
  CHECK(BottleneckInputs{half, quiet}.batches() == Approx(50));
  half.samples_per_s = 640;
  CHECK(BottleneckInputs{half, quiet}.batches() == Approx(100));
}

TEST_CASE("context_of: cores, threads and replay come from the record") {
  RunRecord record = invented::run();
  record.started->num_threads = 3;
  record.finished[0].replay_step_s = 0.001;
  record.finished[0].replay_steps = 12;
  for (events::EpochEnded& epoch : record.epochs)
    epoch.usage = events::Usage{.span_s = 2, .cores = 6};
  const BottleneckContext found = context_of(record, {.cpu_cores = 8});
  CHECK(found.cores() == 6);
  CHECK(found.num_threads == 3);
  CHECK(found.replay_steps == 12);
  CHECK_FALSE(found.straggler);
}

TEST_CASE("context_of: the wait for slow loaders is computed over all ranks") {
  RunRecord record = invented::run();
  record.hellos[1] = record.hellos.at(0);
  record.rank_epochs[0] = {{.steps = 10, .wall_s = 3, .data_wait_s = 1, .step_s = 1}};
  record.rank_epochs[1] = {{.steps = 10, .wall_s = 3, .data_wait_s = 2.5, .step_s = 0.5}};
  const BottleneckContext found = context_of(record, {.cpu_cores = 8});
  REQUIRE(found.ranks_wait_s);
  CHECK(*found.ranks_wait_s == Approx(0.2));  // a step takes 0.3 s, and the longest work 0.1 s
  REQUIRE(found.straggler);
  CHECK(found.straggler->wait_beyond_s == Approx(0.075));
  CHECK(found.straggler_is_here);
}

TEST_CASE("result.json: has cause, setting, evidence and the perfect loader") {
  const Json found = to_json(find_bottleneck(kStarved, context()));
  CHECK(found["verdict"] == "input_bound");
  CHECK(found["cause"] == "few_workers");
  CHECK(found["setting"] == "loader.num_workers=4");
  CHECK(found["perfect_loader"]["speedup"].get<double>() == Approx(5));
  for (const Json& each : found["evidence"]) {
    for (const char* key : {"name", "value", "unit", "text"}) CHECK(each.contains(key));
  }
  const Json healthy = to_json(find_bottleneck(kAtWork, context()));
  CHECK(healthy["setting"].is_null());
  CHECK(to_json(find_bottleneck({}, {}))["perfect_loader"].is_null());
}

TEST_CASE("run summary: an input-bound run has evidence, advice and headroom") {
  RunRecord record = invented::run();
  for (events::EpochEnded& epoch : record.epochs) {
    epoch.timing.data_wait_s += 6;
    epoch.timing.wall_s += 6;
  }
  const std::string text = summary_text(record, invented::ending(), {});
  CHECK_THAT(text, Contains("bottleneck  input: ") && Contains("each step waits ") &&
                       Contains("try loader.num_workers=") &&
                       Contains("loading     if data loading took no time, the run would be "));
}

TEST_CASE("rules: every part has a rule that always holds, and names are unique") {
  std::set<std::string> names;
  for (const Rule& rule : rules()) {
    CHECK(names.insert(rule.cause).second);
    CHECK_FALSE(std::string(rule.diagnosis).empty());
  }
  const events::Timing nothing{.wall_s = 1};
  const BottleneckContext unknown;
  for (int part = static_cast<int>(BottleneckKind::input);
       part <= static_cast<int>(BottleneckKind::balanced); ++part) {
    const BottleneckInputs facts{nothing, unknown, static_cast<BottleneckKind>(part), 1};
    CHECK(rule_for(facts).part == static_cast<BottleneckKind>(part));
  }
}

TEST_CASE("bottlenecks page: every rule is in the tree and in the table") {
  const std::string page = bottlenecks_page();
  for (const Rule& rule : rules()) {
    CHECK_THAT(page, Contains("**" + std::string(rule.cause) + "**"));
    CHECK_THAT(page, Contains("`" + std::string(rule.cause) + "`"));
    CHECK_THAT(page, Contains(rule.diagnosis));
  }
  CHECK(bottlenecks_json().size() == rules().size());
}
