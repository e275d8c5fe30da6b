#include "report/diagnosis/bottleneck.hpp"
#include "report/timing_fixtures.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <functional>
#include <string>

using namespace timing_fixtures;

namespace {

std::string advice_of(const Bottleneck& found) {
  return std::string(name_of(found.limit)) + " " + found.cause + " " + found.setting;
}

/// Returns the advice after `change` was applied to a quiet machine.
std::string advice_with(const events::Timing& times,
                        const std::function<void(BottleneckContext&)>& change) {
  BottleneckContext with = context();
  change(with);
  return advice_of(find_bottleneck(times, with));
}

}  // namespace

TEST_CASE("input_bound: the causes of waiting for batches are distinguished") {
  events::Timing busy = kStarved;
  busy.cpu_percent = 195;
  CHECK(advice_with(busy, [](auto& c) { c.num_workers = 0; }) ==
        "input_bound no_workers loader.num_workers=4");
  CHECK(advice_with(busy, [](auto&) {}) == "input_bound few_workers loader.num_workers=4");
  busy.cpu_percent = 390;
  CHECK(advice_with(busy, [](auto& c) { c.num_workers = 4; }) ==
        "input_bound slow_decode dataset.cache.mode=decoded");
  events::Timing idle = kStarved;
  idle.cpu_percent = 30;
  CHECK(advice_with(idle, [](auto&) {}) == "input_bound slow_source loader.num_workers=10");
  const auto busy_disk = [](BottleneckContext& c) { c.usage->io_stalled = 0.8; };
  // The run does not read, so another process keeps the disk busy.
  CHECK_THAT(advice_with(idle, busy_disk), Contains("slow_source"));
  idle.read_mb_s = 12;
  CHECK(advice_with(idle, busy_disk) == "input_bound slow_disk dataset.cache.mode=encoded");
  CHECK(advice_with(idle, [&](auto& c) {
          busy_disk(c);
          c.levers.cache_mode = "encoded";
          c.levers.read_ahead = 0;
        }) == "input_bound slow_disk loader.read_ahead=32");
}

TEST_CASE("slow_disk: a busy disk is not the cause if the loader threads are busy") {
  events::Timing busy = kStarved;
  busy.cpu_percent = 195;
  busy.read_mb_s = 12;
  CHECK_THAT(advice_with(busy, [](auto& c) { c.usage->io_stalled = 0.8; }),
             Contains("few_workers"));
}

TEST_CASE("slow_source: loader threads that wait for a core do not count as waiting for data") {
  events::Timing idle = kStarved;
  idle.cpu_percent = 30;
  CHECK_THAT(advice_with(idle, [](auto& c) { c.usage->cpu_stalled = 0.9; }),
             Contains("few_workers"));
}

TEST_CASE(
    "oversubscription: more threads than cores are the cause only if they disturb one another") {
  const auto many = [](BottleneckContext& c) { c.num_threads = 16; };
  CHECK_THAT(advice_with(kAtWork, many), StartsWith("compute_bound"));
  CHECK(advice_with(kAtWork, [&](auto& c) {
          many(c);
          c.usage->involuntary_switches_s = 3000;
        }) == "host_bound threads_oversubscribed trainer.num_threads=4");
  CHECK_THAT(advice_with(kAtWork, [](auto& c) { c.usage->involuntary_switches_s = 3000; }),
             StartsWith("compute_bound"));
  CHECK(advice_with(kAtWork, [](auto& c) {
          c.num_workers = 12;
          c.usage->cpu_stalled = 0.6;
        }) == "host_bound workers_oversubscribed loader.num_workers=3");
}

TEST_CASE("cpu_throttled: a setting is proposed only if one helps") {
  const auto throttled = [](BottleneckContext& c) { c.usage->throttled = 0.6; };
  CHECK(advice_with(kAtWork, throttled) == "host_bound cpu_throttled ");
  CHECK(advice_with(kStarved, throttled) == "host_bound cpu_throttled ");
  CHECK(advice_with(kAtWork, [&](auto& c) {
          throttled(c);
          c.num_threads = 8;
        }) == "host_bound threads_oversubscribed trainer.num_threads=4");
}

TEST_CASE("memory_pressure: precedes the waits that it causes") {
  CHECK(advice_with(kStarved, [](auto& c) { c.usage->memory_stalled = 0.5; }) ==
        "input_bound memory_pressure ");
  CHECK(advice_with(kAtWork, [](auto& c) {
          c.usage->major_faults_s = 900;
          c.usage->memory_taken = 0.97;
          c.levers.cache_mode = "auto";
        }) == "compute_bound memory_pressure dataset.cache.budget=25%");
  CHECK_THAT(advice_with(kAtWork, [](auto& c) { c.usage->major_faults_s = 900; }),
             Contains("model_at_work"));
}

TEST_CASE("checkpoint_bound: the proposal changes the option that triggers the checkpoints") {
  const events::Timing saving = timing(&events::Timing::checkpoint_s, 5);
  CHECK(advice_with(saving, [](auto& c) { c.levers.checkpoint_every_steps = 1; }) ==
        "checkpoint_bound saved_too_often checkpoint.every_n_steps=50");
  CHECK(advice_with(saving, [](auto& c) { c.levers.checkpoint_every_s = 3; }) ==
        "checkpoint_bound saved_too_often checkpoint.every_t=10m");
  CHECK(advice_with(saving, [](auto&) {}) ==
        "checkpoint_bound saved_too_often checkpoint.every_n_epochs=5");
  CHECK(advice_with(saving, [](auto& c) {
          c.max_epochs = 1;
          c.levers.checkpoint_on_best = true;
        }) == "checkpoint_bound saved_too_often checkpoint.on_best=false");
  CHECK(advice_with(saving, [](auto& c) { c.levers.checkpoint_async = false; }) ==
        "checkpoint_bound saved_in_the_step checkpoint.async=true");
}

TEST_CASE("evaluation_bound: found from a third of the time on, even if compute takes longer") {
  CHECK(advice_with(timing(&events::Timing::eval_s, 3.5), [](auto&) {}) ==
        "evaluation_bound validated_too_often trainer.check_val_every_n_epoch=2");
  CHECK_THAT(advice_with(timing(&events::Timing::eval_s, 3.2), [](auto&) {}),
             StartsWith("compute_bound"));
}

TEST_CASE("communication_bound: distinguishes a slow rank, a slow link and a late all-reduce") {
  const events::Timing exchanging = timing(&events::Timing::allreduce_exposed_s, 4);
  CHECK(advice_with(exchanging, [](auto& c) {
          c.straggler = RankRow{.rank = 3, .slowdown = 0.8};
        }) == "communication_bound slow_rank ");
  CHECK(advice_with(exchanging, [](auto& c) {
          c.overlap = 0.1;
          c.bucket_bytes = {24'000'000};
        }) == "communication_bound late_exchange distributed.bucket_cap_mb=3");
  CHECK(advice_with(exchanging, [](auto& c) {
          c.overlap = 0.9;
          c.bucket_bytes = {1'000'000, 23'000'000};
        }) == "communication_bound slow_link loader.batch_size=128");
}

TEST_CASE("spinning_threads: found if spinning threads leave the loader no core") {
  events::Timing busy = kStarved;
  busy.cpu_percent = 390;
  const auto spinning = [](BottleneckContext& c) {
    c.num_threads = 2;
    c.levers.spin_variable = "OMP_WAIT_POLICY=active";
    c.usage->loader_cores = 1.0;
  };
  CHECK(advice_with(busy, spinning) == "input_bound spinning_threads trainer.num_threads=1");
  CHECK_THAT(advice_with(kStarved, spinning), !Contains("spinning"));  // there are idle cores
  CHECK_THAT(advice_with(kAtWork, spinning), !Contains("spinning"));
  CHECK_THAT(advice_with(busy,
                         [&](auto& c) {
                           spinning(c);
                           c.num_threads = 1;
                         }),
             !Contains("spinning"));
  CHECK_THAT(advice_with(busy, [](auto& c) { c.num_threads = 2; }), !Contains("spinning"));
  CHECK_THAT(advice_with(busy,
                         [&](auto& c) {
                           spinning(c);
                           c.usage->loader_cores = 3.8;  // the loader uses all cores
                         }),
             !Contains("spinning"));
  CHECK_THAT(advice_with(busy,
                         [&](auto& c) {
                           spinning(c);
                           c.usage.reset();
                         }),
             !Contains("spinning"));
}

TEST_CASE("slow_loading_rank: workers are proposed for a rank that waits for its own batches") {
  const events::Timing exchanging = timing(&events::Timing::allreduce_exposed_s, 6);
  const RankRow loading_rank{
      .rank = 3, .data_wait_s = 0.030, .work_s = 0.0061, .slowdown = 1.5, .wait_beyond_s = 0.02};
  CHECK(advice_with(exchanging, [&](auto& c) { c.straggler = loading_rank; }) ==
        "communication_bound slow_loading_rank loader.num_workers=12");
  CHECK(advice_with(exchanging, [&](auto& c) {
          c.straggler = loading_rank;
          c.usage->cpu_stalled = 0.5;  // there is no idle core
        }) == "communication_bound slow_loading_rank loader.num_workers=4");
  CHECK(advice_with(exchanging, [&](auto& c) {
          c.straggler = loading_rank;
          c.straggler_is_here = false;
        }) == "communication_bound slow_loading_rank loader.num_workers=4");
  // All ranks wait equally, and this one computes longer.
  CHECK(advice_with(exchanging, [](auto& c) {
          c.straggler = RankRow{.rank = 3, .data_wait_s = 0.005, .work_s = 0.016, .slowdown = 0.4};
        }) == "communication_bound slow_rank ");
}

TEST_CASE("perfect loader: all ranks save the wait of the slowest rank") {
  const events::Timing exchanging = timing(&events::Timing::allreduce_exposed_s, 6);
  BottleneckContext with = context();
  with.world_size = 2;
  const double batches = 6400.0 / (64 * 2);
  with.ranks_wait_s = 5 / batches;
  with.straggler = RankRow{.rank = 1, .data_wait_s = 0.1, .slowdown = 1, .wait_beyond_s = 0.05};
  const Bottleneck found = find_bottleneck(exchanging, with);
  REQUIRE(found.perfect_loader);
  CHECK(found.perfect_loader->speedup == Approx(2));
  CHECK(std::ranges::any_of(found.evidence, [](const Evidence& each) {
    return each.name == "straggler_data_wait" && each.in_summary;
  }));
  with.ranks_wait_s = 0;  // rank 0 waits while another rank works
  CHECK(find_bottleneck(kStarved, with).perfect_loader->speedup == Approx(1));
}

TEST_CASE("host_bound: the reason why a GPU waits for its host is named") {
  const events::Timing launching = timing(&events::Timing::other_s, 6);
  const auto on_gpu = [&](const std::function<void(BottleneckContext&)>& change) {
    return advice_with(launching, [&](auto& c) {
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

TEST_CASE("transfer_bound: pinned memory is proposed first, then a cache on the device") {
  const events::Timing copying = timing(&events::Timing::h2d_s, 4);
  CHECK(advice_with(copying, [](auto& c) {
          c.on_gpu = true;
          c.levers.pin_memory = false;
        }) == "transfer_bound unpinned_memory loader.pin_memory=true");
  CHECK(advice_with(copying, [](auto& c) {
          c.on_gpu = true;
          c.levers.pin_memory = true;
        }) == "transfer_bound large_copies dataset.cache.mode=device");
  CHECK(advice_with(copying, [](auto&) {}) == "transfer_bound large_copies ");
}

TEST_CASE("compute_bound: GPU throttling and precision are checked before the batch size") {
  const auto on_gpu = [](const std::function<void(BottleneckContext&)>& change) {
    return advice_with(kAtWork, [&](auto& c) {
      c.on_gpu = true;
      change(c);
    });
  };
  CHECK(on_gpu([](auto& c) { c.usage->gpu_throttle = "heat"; }) == "compute_bound gpu_throttled ");
  CHECK(on_gpu([](auto& c) { c.levers.precision = "32-true"; }) ==
        "compute_bound full_precision trainer.precision=bf16-mixed");
  CHECK(on_gpu([](auto&) {}) == "compute_bound device_at_work loader.batch_size=128");
}

TEST_CASE("Bottleneck: no setting is proposed for a healthy run") {
  CHECK(advice_with(kAtWork, [](auto&) {}) == "compute_bound model_at_work ");
  events::Timing even{.wall_s = 10, .forward_s = 3, .optimizer_s = 3.5, .eval_s = 2, .other_s = 1};
  CHECK(advice_with(even, [](auto&) {}) == "balanced nothing_to_fix ");
}

TEST_CASE("Bottleneck: a setting that the config rejects is skipped for the next one") {
  BottleneckContext with = context();
  with.levers.checkpoint_every_steps = 1;
  const events::Timing saving = timing(&events::Timing::checkpoint_s, 5);
  std::vector<std::string> checked;
  with.levers.accepts = [&](const std::string& setting) {
    checked.push_back(setting);
    return setting.starts_with("checkpoint.every_n_epochs");
  };
  CHECK(find_bottleneck(saving, with).setting == "checkpoint.every_n_epochs=5");
  CHECK(checked.size() == 2);
  with.levers.accepts = [](const std::string&) { return false; };
  const Bottleneck none = find_bottleneck(saving, with);
  CHECK(none.setting.empty());
  CHECK_FALSE(none.advice.empty());
}

TEST_CASE("memory_pressure: a cache that is already small is not reduced") {
  for (const double share : {0.1, 0.25, 0.5}) {
    CAPTURE(share);
    const std::string found = advice_with(kAtWork, [&](BottleneckContext& with) {
      with.levers.cache_mode = "decoded";
      with.levers.cache_share = share;
      with.usage->memory_stalled = 0.3;
    });
    CHECK(found == (share > 0.25 ? "compute_bound memory_pressure dataset.cache.budget=25%"
                                 : "compute_bound memory_pressure "));
  }
}
