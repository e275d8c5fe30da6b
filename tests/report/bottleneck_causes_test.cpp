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

/// Returns the verdict after `change` was applied to a quiet machine.
std::string planted(const events::Timing& times,
                    const std::function<void(BottleneckContext&)>& change) {
  BottleneckContext with = context();
  change(with);
  return advice_of(find_bottleneck(times, with));
}

}  // namespace

TEST_CASE("input_bound: the causes of waiting for batches are distinguished") {
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
  CHECK_THAT(planted(idle, disk), Contains("slow_source"));  // another process waits for the disk
  idle.read_mb_s = 12;
  CHECK(planted(idle, disk) == "input_bound slow_disk dataset.cache.mode=encoded");
  CHECK(planted(idle, [&](auto& c) {
          disk(c);
          c.levers.cache_mode = "encoded";
          c.levers.read_ahead = 0;
        }) == "input_bound slow_disk loader.read_ahead=32");
}

TEST_CASE("slow_disk: a busy disk is not the cause while all cores load") {
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

TEST_CASE("cpu_throttled: has a setting only if one helps") {
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

TEST_CASE("evaluation_bound: validation counts from a third of the time, even with more compute") {
  CHECK(planted(timing(&events::Timing::eval_s, 3.5), [](auto&) {}) ==
        "evaluation_bound validated_too_often trainer.check_val_every_n_epoch=2");
  CHECK_THAT(planted(timing(&events::Timing::eval_s, 3.2), [](auto&) {}),
             StartsWith("compute_bound"));
}

TEST_CASE("communication_bound: distinguishes a slow rank, a slow link and a late all-reduce") {
  const events::Timing apart = timing(&events::Timing::allreduce_exposed_s, 4);
  CHECK(planted(apart, [](auto& c) { c.straggler = RankRow{.rank = 3, .slowdown = 0.8}; }) ==
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

TEST_CASE("spinning_threads: found if spinning threads leave the loader no core") {
  events::Timing busy = kStarved;
  busy.cpu_percent = 390;
  const auto spin = [](BottleneckContext& c) {
    c.num_threads = 2;
    c.levers.spin_variable = "OMP_WAIT_POLICY=active";
    c.usage->loader_cores = 1.0;
  };
  CHECK(planted(busy, spin) == "input_bound spinning_threads trainer.num_threads=1");
  CHECK_THAT(planted(kStarved, spin), !Contains("spinning"));  // there are idle cores
  CHECK_THAT(planted(kAtWork, spin), !Contains("spinning"));
  CHECK_THAT(planted(busy,
                     [&](auto& c) {
                       spin(c);
                       c.num_threads = 1;
                     }),
             !Contains("spinning"));
  CHECK_THAT(planted(busy, [](auto& c) { c.num_threads = 2; }), !Contains("spinning"));
  CHECK_THAT(planted(busy,
                     [&](auto& c) {
                       spin(c);
                       c.usage->loader_cores = 3.8;  // the loader uses the cores
                     }),
             !Contains("spinning"));
  CHECK_THAT(planted(busy,
                     [&](auto& c) {
                       spin(c);
                       c.usage.reset();
                     }),
             !Contains("spinning"));
}

TEST_CASE("a rank that waits for its own batches gets workers") {
  const events::Timing apart = timing(&events::Timing::allreduce_exposed_s, 6);
  const RankRow loads{
      .rank = 3, .data_wait_s = 0.030, .work_s = 0.0061, .slowdown = 1.5, .wait_beyond_s = 0.02};
  CHECK(planted(apart, [&](auto& c) { c.straggler = loads; }) ==
        "communication_bound slow_loading_rank loader.num_workers=12");
  CHECK(planted(apart, [&](auto& c) {
          c.straggler = loads;
          c.usage->cpu_stalled = 0.5;  // there is no idle core
        }) == "communication_bound slow_loading_rank loader.num_workers=4");
  CHECK(planted(apart, [&](auto& c) {
          c.straggler = loads;
          c.straggler_is_here = false;
        }) == "communication_bound slow_loading_rank loader.num_workers=4");
  CHECK(planted(apart, [](auto& c) {  // all ranks wait equally, and this one computes longer
          c.straggler = RankRow{.rank = 3, .data_wait_s = 0.005, .work_s = 0.016, .slowdown = 0.4};
        }) == "communication_bound slow_rank ");
}

TEST_CASE("a perfect loader spares all ranks the wait of the slowest") {
  const events::Timing apart = timing(&events::Timing::allreduce_exposed_s, 6);
  BottleneckContext with = context();
  with.world_size = 2;
  const double batches = 6400.0 / (64 * 2);
  with.ranks_wait_s = 5 / batches;
  with.straggler = RankRow{.rank = 1, .data_wait_s = 0.1, .slowdown = 1, .wait_beyond_s = 0.05};
  const Bottleneck found = find_bottleneck(apart, with);
  REQUIRE(found.perfect_loader);
  CHECK(found.perfect_loader->speedup == Approx(2));
  CHECK(std::ranges::any_of(found.evidence, [](const Evidence& each) {
    return each.name == "straggler_data_wait" && each.in_summary;
  }));
  with.ranks_wait_s = 0;  // rank 0 waits while another rank works
  CHECK(find_bottleneck(kStarved, with).perfect_loader->speedup == Approx(1));
}

TEST_CASE("host_bound: the cause of a GPU that waits for its host is named") {
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
