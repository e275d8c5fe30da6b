#include "report/bottleneck.hpp"

#include "report/bottleneck_page.hpp"
#include "report/bottleneck_rules.hpp"
#include "report/invented.hpp"
#include "report/result.hpp"
#include "report/summary.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

using namespace trainctl;
using namespace trainctl::report;

namespace {

/// A run of 10 s in epochs, in which a part takes `seconds`, and the passes the rest.
events::Timing timing(double events::Timing::*part, double seconds) {
  events::Timing timing{.wall_s = 10, .forward_s = 10 - seconds, .samples = 6400};
  timing.*part += seconds;
  timing.cpu_percent = 100;
  return timing;
}

const events::Timing kStarved = timing(&events::Timing::data_wait_s, 8);
const events::Timing kAtWork = timing(&events::Timing::backward_s, 5);

/// Of a quiet machine of four cores.
BottleneckContext context() {
  return {.num_workers = 2,
          .batch_size = 64,
          .train_samples = 60000,
          .max_epochs = 10,
          .levers = {.cpu_cores = 4,
                     .cache_mode = "none",
                     .cache_modes = {"none", "encoded", "decoded", "device"}},
          .num_threads = 1,
          .usage = events::Usage{.span_s = 10,
                                 .cores = 4,
                                 .cpu_stalled = 0.02,
                                 .io_stalled = 0.0,
                                 .memory_stalled = 0.0,
                                 .loader_threads = 2,
                                 .loader_cores = 1.9,
                                 .memory_taken = 0.3}};
}

std::string told(const Bottleneck& found) {
  return std::string(name_of(found.limit)) + " " + found.cause + " " + found.setting;
}

/// The verdict after `change` was planted in a quiet machine.
std::string planted(const events::Timing& times,
                    const std::function<void(BottleneckContext&)>& change) {
  BottleneckContext with = context();
  change(with);
  return told(find_bottleneck(times, with));
}

bool tells(const Bottleneck& found, const std::string& name) {
  return std::ranges::any_of(found.evidence,
                             [&](const Evidence& each) { return each.name == name && each.tells; });
}

}  // namespace

TEST_CASE("a step that waits for batches has causes that are told apart") {
  events::Timing busy = kStarved;
  busy.cpu_percent = 195;
  CHECK(planted(busy, [](auto& c) { c.num_workers = 0; }) ==
        "input_bound no_workers loader.num_workers=4");
  CHECK(planted(busy, [](auto&) {}) == "input_bound few_workers loader.num_workers=4");
  busy.cpu_percent = 390;
  CHECK(planted(busy, [](auto& c) { c.num_workers = 4; }) ==
        "input_bound slow_decode dataset.cache.mode=decoded");
  events::Timing idle = kStarved;
  idle.cpu_percent = 30;
  CHECK(planted(idle, [](auto&) {}) == "input_bound slow_source loader.num_workers=10");
  const auto disk = [](BottleneckContext& c) { c.usage->io_stalled = 0.8; };
  CHECK_THAT(planted(idle, disk), Contains("slow_source"));  // another process waits for it
  idle.read_mb_s = 12;
  CHECK(planted(idle, disk) == "input_bound slow_disk dataset.cache.mode=encoded");
  CHECK(planted(idle, [&](auto& c) {
          disk(c);
          c.levers.cache_mode = "encoded";
          c.levers.read_ahead = 0;
        }) == "input_bound slow_disk loader.read_ahead=32");
}

TEST_CASE("a disk that is busy beside cores that load is not the cause") {
  events::Timing busy = kStarved;
  busy.cpu_percent = 195;
  busy.read_mb_s = 12;
  CHECK_THAT(planted(busy, [](auto& c) { c.usage->io_stalled = 0.8; }), Contains("few_workers"));
}

TEST_CASE("a loader that gets no core on a busy machine does not count as asleep") {
  events::Timing idle = kStarved;
  idle.cpu_percent = 30;
  CHECK_THAT(planted(idle, [](auto& c) { c.usage->cpu_stalled = 0.9; }), Contains("few_workers"));
}

TEST_CASE("more threads than cores are the host's fault, where they get into each other's way") {
  const auto many = [](BottleneckContext& c) { c.num_threads = 16; };
  CHECK_THAT(planted(kAtWork, many), StartsWith("compute_bound"));
  CHECK(planted(kAtWork, [&](auto& c) {
          many(c);
          c.usage->involuntary_switches_s = 3000;
        }) == "host_bound threads_oversubscribed trainer.num_threads=4");
  CHECK_THAT(planted(kAtWork, [](auto& c) { c.usage->involuntary_switches_s = 3000; }),
             StartsWith("compute_bound"));
  CHECK(planted(kAtWork, [](auto& c) {
          c.num_workers = 12;
          c.usage->cpu_stalled = 0.6;
        }) == "host_bound workers_oversubscribed loader.num_workers=3");
}

TEST_CASE("a CPU quota that is used up is told, with a setting only where there is one") {
  const auto stopped = [](BottleneckContext& c) { c.usage->throttled = 0.6; };
  CHECK(planted(kAtWork, stopped) == "host_bound cpu_throttled ");
  CHECK(planted(kStarved, stopped) == "host_bound cpu_throttled ");
  CHECK(planted(kAtWork, [&](auto& c) {
          stopped(c);
          c.num_threads = 8;
        }) == "host_bound threads_oversubscribed trainer.num_threads=4");
}

TEST_CASE("short memory comes before what it slows down") {
  CHECK(planted(kStarved, [](auto& c) { c.usage->memory_stalled = 0.5; }) ==
        "input_bound memory_pressure ");
  CHECK(planted(kAtWork, [](auto& c) {
          c.usage->major_faults_s = 900;
          c.usage->memory_taken = 0.97;
          c.levers.cache_mode = "auto";
        }) == "compute_bound memory_pressure dataset.cache.budget=25%");
  CHECK_THAT(planted(kAtWork, [](auto& c) { c.usage->major_faults_s = 900; }),
             Contains("model_at_work"));
}

TEST_CASE("a checkpoint too often names the key that makes it so") {
  const events::Timing saving = timing(&events::Timing::checkpoint_s, 5);
  CHECK(planted(saving, [](auto& c) { c.levers.checkpoint_every_steps = 1; }) ==
        "checkpoint_bound saved_too_often checkpoint.every_n_steps=50");
  CHECK(planted(saving, [](auto& c) { c.levers.checkpoint_every_s = 3; }) ==
        "checkpoint_bound saved_too_often checkpoint.every_t=10m");
  CHECK(planted(saving, [](auto&) {}) ==
        "checkpoint_bound saved_too_often checkpoint.every_n_epochs=5");
  CHECK(planted(saving, [](auto& c) {
          c.max_epochs = 1;
          c.levers.checkpoint_on_best = true;
        }) == "checkpoint_bound saved_too_often checkpoint.on_best=false");
  CHECK(planted(saving, [](auto& c) { c.levers.checkpoint_async = false; }) ==
        "checkpoint_bound saved_in_the_step checkpoint.async=true");
}

TEST_CASE("validation counts from a third of the time on, beside more compute") {
  CHECK(planted(timing(&events::Timing::eval_s, 3.5), [](auto&) {}) ==
        "evaluation_bound validated_too_often trainer.check_val_every_n_epoch=2");
  CHECK_THAT(planted(timing(&events::Timing::eval_s, 3.2), [](auto&) {}),
             StartsWith("compute_bound"));
}

TEST_CASE("one slow rank is told from a slow link, and both from gradients that go too late") {
  const events::Timing apart = timing(&events::Timing::allreduce_exposed_s, 4);
  CHECK(planted(apart, [](auto& c) { c.straggler = RankRow{.rank = 3, .behind = 0.8}; }) ==
        "communication_bound slow_rank ");
  CHECK(planted(apart, [](auto& c) {
          c.overlap = 0.1;
          c.bucket_bytes = {24'000'000};
        }) == "communication_bound late_exchange distributed.bucket_cap_mb=3");
  CHECK(planted(apart, [](auto& c) {
          c.overlap = 0.9;
          c.bucket_bytes = {1'000'000, 23'000'000};
        }) == "communication_bound slow_link loader.batch_size=128");
}

TEST_CASE("a GPU that waits for its host is told why") {
  const events::Timing launching = timing(&events::Timing::other_s, 6);
  const auto on_gpu = [&](const std::function<void(BottleneckContext&)>& change) {
    return planted(launching, [&](auto& c) {
      c.on_gpu = true;
      change(c);
    });
  };
  CHECK(on_gpu([](auto& c) { c.levers.detect_anomaly = true; }) ==
        "host_bound forced_sync trainer.detect_anomaly=false");
  CHECK(on_gpu([](auto& c) { c.levers.log_every_steps = 1; }) ==
        "host_bound forced_sync trainer.log_every_n_steps=50");
  CHECK(on_gpu([](auto& c) { c.levers.cuda_graphs = false; }) ==
        "host_bound many_launches trainer.cuda_graphs=true");
  CHECK(on_gpu([](auto&) {}) == "host_bound small_steps loader.batch_size=128");
}

TEST_CASE("copies to a GPU ask for page-locked memory, and then for images that stay there") {
  const events::Timing copying = timing(&events::Timing::h2d_s, 4);
  CHECK(planted(copying, [](auto& c) {
          c.on_gpu = true;
          c.levers.pin_memory = false;
        }) == "transfer_bound unpinned_memory loader.pin_memory=true");
  CHECK(planted(copying, [](auto& c) {
          c.on_gpu = true;
          c.levers.pin_memory = true;
        }) == "transfer_bound large_copies dataset.cache.mode=device");
  CHECK(planted(copying, [](auto&) {}) == "transfer_bound large_copies ");
}

TEST_CASE("a GPU at work is asked for its clocks and its number format") {
  const auto on_gpu = [](const std::function<void(BottleneckContext&)>& change) {
    return planted(kAtWork, [&](auto& c) {
      c.on_gpu = true;
      change(c);
    });
  };
  CHECK(on_gpu([](auto& c) { c.usage->gpu_throttle = "heat"; }) == "compute_bound gpu_throttled ");
  CHECK(on_gpu([](auto& c) { c.levers.precision = "32-true"; }) ==
        "compute_bound full_precision trainer.precision=bf16-mixed");
  CHECK(on_gpu([](auto&) {}) == "compute_bound device_at_work loader.batch_size=128");
}

TEST_CASE("a healthy run has nothing to fix") {
  CHECK(planted(kAtWork, [](auto&) {}) == "compute_bound model_at_work ");
  events::Timing even{.wall_s = 10, .forward_s = 3, .optimizer_s = 3.5, .eval_s = 2, .other_s = 1};
  CHECK(planted(even, [](auto&) {}) == "balanced nothing_to_fix ");
}

TEST_CASE("a setting that the experiment would refuse is passed over for the next one") {
  BottleneckContext with = context();
  with.levers.checkpoint_every_steps = 1;
  const events::Timing saving = timing(&events::Timing::checkpoint_s, 5);
  std::vector<std::string> asked;
  with.levers.accepts = [&](const std::string& setting) {
    asked.push_back(setting);
    return setting.starts_with("checkpoint.every_n_epochs");
  };
  CHECK(find_bottleneck(saving, with).setting == "checkpoint.every_n_epochs=5");
  CHECK(asked.size() == 2);
  with.levers.accepts = [](const std::string&) { return false; };
  const Bottleneck none = find_bottleneck(saving, with);
  CHECK(none.setting.empty());
  CHECK_FALSE(none.advice.empty());
}

TEST_CASE("a perfect loader takes the waits from the time, and no more") {
  const Bottleneck found = find_bottleneck(kStarved, context());
  REQUIRE(found.perfect_loader);
  CHECK(found.perfect_loader->speedup == Approx(5));
  CHECK(found.headroom == Approx(5));
  CHECK(found.perfect_loader->now_s == Approx(0.1));
  CHECK(found.perfect_loader->step_s == Approx(0.02));
  CHECK_THAT(text_of(*found.perfect_loader),
             StartsWith("a perfect loader would give 5.00x (by the steps as they were"));
  BottleneckContext unknown = context();
  unknown.batch_size = 0;
  CHECK_FALSE(find_bottleneck(kStarved, unknown).perfect_loader);
}

TEST_CASE("a replay also takes what the loader's threads cost the step beside it, never less") {
  BottleneckContext with = context();
  with.replay_step_s = 0.01;  // 100 batches, of whose passes 2 s are told
  with.replay_steps = 20;
  with.usage->loader_cores = 0.5;
  const Bottleneck found = find_bottleneck(kStarved, with);
  CHECK(found.perfect_loader->speedup == Approx(10));
  CHECK(found.perfect_loader->replayed == 20);
  CHECK_THAT(text_of(*found.perfect_loader), Contains("20 steps with one batch replayed"));
  with.usage->loader_cores = 0.05;  // they computed half a second
  CHECK(find_bottleneck(kStarved, with).perfect_loader->speedup == Approx(10 / 1.5));
  with.replay_step_s = 5;
  CHECK(find_bottleneck(kStarved, with).perfect_loader->speedup == Approx(5));
}

TEST_CASE("where a perfect loader gives next to nothing, the text says to stop") {
  const Bottleneck found = find_bottleneck(timing(&events::Timing::data_wait_s, 0.2), context());
  CHECK_THAT(text_of(*found.perfect_loader),
             StartsWith("a perfect loader would give 1.02x: stop here, loading is not the limit"));
}

TEST_CASE("evidence has the numbers that the verdict rests on, and none that nobody told") {
  const Bottleneck found = find_bottleneck(kStarved, context());
  CHECK(tells(found, "data_wait_step"));
  CHECK(tells(found, "loader_rate"));
  CHECK_FALSE(tells(found, "memory_taken"));
  BottleneckContext silent = context();
  silent.usage.reset();
  for (const Evidence& each : find_bottleneck(kStarved, silent).evidence) {
    CHECK(each.name != "io_stalled");
    CHECK_FALSE(each.text.empty());
  }
}

TEST_CASE("usage of epochs is weighted by their time, and absent where none has any") {
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

TEST_CASE("usage that some epochs lack is the mean of the others, and throttling needs most time") {
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

TEST_CASE("an epoch of which an earlier process made a part counts by the rest") {
  auto half = timing(&events::Timing::data_wait_s, 8);
  half.samples_per_s = 320;  // 3200 of its 6400 samples were trained on in these 10 s
  const BottleneckContext quiet = context();
  CHECK(Facts{half, quiet}.batches() == Approx(50));
  half.samples_per_s = 640;
  CHECK(Facts{half, quiet}.batches() == Approx(100));
}

TEST_CASE("a cache that is small already is not proposed to be made smaller") {
  for (const double share : {0.1, 0.25, 0.5}) {
    CAPTURE(share);
    const std::string found = planted(kAtWork, [&](BottleneckContext& with) {
      with.levers.cache_mode = "decoded";
      with.levers.cache_share = share;
      with.usage->memory_stalled = 0.3;
    });
    CHECK(found == (share > 0.25 ? "compute_bound memory_pressure dataset.cache.budget=25%"
                                 : "compute_bound memory_pressure "));
  }
}

TEST_CASE("the facts of a record reach the verdict") {
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

TEST_CASE("result.json tells cause, setting, evidence and the perfect loader") {
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

TEST_CASE("the summary of a starved run has evidence, advice and headroom") {
  RunRecord record = invented::run();
  for (events::EpochEnded& epoch : record.epochs) {
    epoch.timing.data_wait_s += 6;
    epoch.timing.wall_s += 6;
  }
  const std::string text = summary_text(record, invented::ending(), {});
  CHECK_THAT(text, Contains("bottleneck  input: ") && Contains("a step waits ") &&
                       Contains("try loader.num_workers=") &&
                       Contains("headroom    a perfect loader would give "));
}

TEST_CASE("every part has a rule that always holds, and every rule a name of its own") {
  std::set<std::string> names;
  for (const Rule& rule : rules()) {
    CHECK(names.insert(rule.cause).second);
    CHECK_FALSE(std::string(rule.diagnosis).empty());
  }
  const events::Timing nothing{.wall_s = 1};
  const BottleneckContext unknown;
  for (int part = 0; part <= static_cast<int>(Limit::balanced); ++part) {
    const Facts facts{nothing, unknown, static_cast<Limit>(part), 1};
    CHECK(rule_for(facts).part == static_cast<Limit>(part));
  }
}

TEST_CASE("the page has every rule in its tree and in its table") {
  const std::string page = bottlenecks_page();
  for (const Rule& rule : rules()) {
    CHECK_THAT(page, Contains("**" + std::string(rule.cause) + "**"));
    CHECK_THAT(page, Contains("`" + std::string(rule.cause) + "`"));
    CHECK_THAT(page, Contains(rule.diagnosis));
  }
  CHECK(bottlenecks_json().size() == rules().size());
}
