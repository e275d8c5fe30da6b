#include "report/record/run_record.hpp"

#include "report/diagnosis/bottleneck.hpp"
#include "report/invented.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::report;

TEST_CASE("sum_timing: adds seconds and samples, weights shares by time and keeps peak memory") {
  auto a = invented::epoch(0);
  auto b = invented::epoch(1);
  a.timing.cpu_percent = 50;
  b.timing.cpu_percent = 95;
  b.timing.rss_mb = 900;
  b.timing.gpu_mem_mb = 70;
  const events::EpochEnded both[] = {a, b};
  const events::Timing sum = sum_timing(both);
  CHECK(sum.wall_s == Approx(4.5));
  CHECK(sum.data_wait_s == Approx(0.58));
  CHECK(sum.samples == 120000);
  CHECK(sum.samples_per_s == Approx(120000 / (4.5 - 0.24)));
  CHECK(sum.cpu_percent == Approx((50 * 2.5 + 95 * 2.0) / 4.5));
  CHECK(sum.rss_mb == 900);
  CHECK(sum.gpu_mem_mb == 70);
  CHECK_FALSE(sum.gpu_util.has_value());
}

TEST_CASE("sum_timing: the sum of no epochs is zero instead of NaN") {
  const events::Timing sum = sum_timing({});
  CHECK(sum.samples_per_s == 0);
  CHECK(sum.cpu_percent == 0);
}

TEST_CASE("best_of: returns the last epoch that improved, with metric and checkpoint") {
  const auto best = best_of(invented::run());
  REQUIRE(best);
  CHECK(best->metric == "val/accuracy");
  CHECK(best->epoch == 2);
  CHECK(best->value == Approx(0.97));
  CHECK(best->checkpoint == "checkpoints/best.safetensors");
  CHECK_FALSE(best_of(RunRecord{}));
}

TEST_CASE("best_of: without a checkpoint the monitor determines the best epoch") {
  RunRecord record;
  record.add(0, invented::epoch(1));
  CHECK_FALSE(best_of(record));
  record.add(0, events::RunStarted{.monitor = "train/loss"});
  const auto best = best_of(record);
  REQUIRE(best);
  CHECK(best->metric == "train/loss");
  CHECK(best->value == events::find_metric(record.epochs[0].metrics, "train/loss"));
  CHECK(best->checkpoint.empty());
}

TEST_CASE("RunRecord: epochs of each rank are stored separately, and replaced like epochs") {
  RunRecord record;
  for (const int rank : {0, 1}) {
    for (const std::int64_t epoch : {0, 1, 2, 1}) {
      events::RankEpoch epoch_of_rank;
      epoch_of_rank.rank = rank;
      epoch_of_rank.epoch = epoch;
      epoch_of_rank.steps = 10 * static_cast<std::int64_t>(record.rank_epochs[rank].size()) + rank;
      record.add(rank, epoch_of_rank);
    }
  }
  CHECK(record.epochs.empty());
  REQUIRE(record.rank_epochs.size() == 2);
  REQUIRE(record.rank_epochs[1].size() == 2);
  CHECK(record.rank_epochs[1][0].steps == 1);
  CHECK(record.rank_epochs[1][1].epoch == 1);
  CHECK(record.rank_epochs[1][1].steps == 31);
}

TEST_CASE("RunRecord: a repeated epoch replaces the old one and those after it") {
  RunRecord record = invented::run(4);
  record.add(0, invented::epoch(2));
  REQUIRE(record.epochs.size() == 3);
  CHECK(record.epochs.back().epoch == 2);
}

TEST_CASE("RunRecord: keeps only the epochs of rank 0 and the first failure of each rank") {
  RunRecord record;
  record.add(1, invented::epoch(0));
  record.add(1, events::Failed{.rank = 1, .message = "first", .global_step = 7});
  record.add(1, events::Failed{.rank = 1, .message = "second"});
  CHECK(record.epochs.empty());
  CHECK(record.failures.at(1).message == "first");
  CHECK(record.last_step == 938);
}

TEST_CASE("input_bound: found from a wait of 15 % on, even if compute takes longer") {
  events::Timing timing{.wall_s = 10, .data_wait_s = 2, .forward_s = 3, .backward_s = 5};
  Bottleneck found =
      find_bottleneck(timing, {.num_workers = 2, .batch_size = 64, .levers = {.cpu_cores = 8}});
  CHECK(found.limit == BottleneckKind::input);
  CHECK(found.share == Approx(0.2));
  CHECK(found.gain.high == Approx(1.25));
  CHECK(found.setting == "loader.num_workers=3");
  timing.data_wait_s = 1.4;
  CHECK(find_bottleneck(timing, {}).limit == BottleneckKind::compute);
}

TEST_CASE("input_bound: as many workers as needed are proposed, and a cache if all cores load") {
  const events::Timing starved{.wall_s = 10, .data_wait_s = 8, .forward_s = 2};
  CHECK(find_bottleneck(starved, {.num_workers = 0, .levers = {.cpu_cores = 16}}).setting ==
        "loader.num_workers=4");
  CHECK(find_bottleneck(starved, {.num_workers = 2, .levers = {.cpu_cores = 16}}).setting ==
        "loader.num_workers=10");
  CHECK(find_bottleneck(starved, {.num_workers = 2, .levers = {.cpu_cores = 4}}).setting ==
        "loader.num_workers=4");
  const AdviceSettings uncached{
      .cpu_cores = 4, .cache_mode = "none", .cache_modes = {"none", "decoded"}};
  CHECK(find_bottleneck(starved, {.num_workers = 4, .levers = uncached}).setting ==
        "dataset.cache.mode=decoded");
  CHECK(find_bottleneck({.wall_s = 10, .data_wait_s = 10}, {.num_workers = 1}).setting ==
        "loader.num_workers=8");
}

TEST_CASE("Bottleneck: each kind is found by its share and proposes one setting") {
  const BottleneckContext context{
      .batch_size = 64, .train_samples = 60000, .max_epochs = 10, .on_gpu = true};
  const auto verdict = [&](const events::Timing& timing) {
    const Bottleneck found = find_bottleneck(timing, context);
    return std::string(name_of(found.limit)) + " " + found.setting;
  };
  CHECK(verdict({.wall_s = 10, .h2d_s = 4, .forward_s = 5}) ==
        "transfer_bound loader.pin_memory=true");
  CHECK(verdict({.wall_s = 10, .forward_s = 5, .allreduce_exposed_s = 3}) ==
        "communication_bound loader.batch_size=128");
  CHECK(verdict({.wall_s = 10, .forward_s = 5, .checkpoint_s = 3}) ==
        "checkpoint_bound checkpoint.every_n_epochs=5");
  CHECK(verdict({.wall_s = 10, .forward_s = 4, .backward_s = 4}) ==
        "compute_bound loader.batch_size=128");
  CHECK(verdict({.wall_s = 10, .forward_s = 2, .optimizer_s = 6}) ==
        "optimizer_bound loader.batch_size=128");
  CHECK(verdict({.wall_s = 10, .forward_s = 2, .eval_s = 6}) ==
        "evaluation_bound trainer.check_val_every_n_epoch=2");
  CHECK(verdict({.wall_s = 10, .forward_s = 2, .other_s = 6}) ==
        "host_bound loader.batch_size=128");
  CHECK(verdict({.wall_s = 10, .forward_s = 3, .optimizer_s = 3, .eval_s = 3}) == "balanced ");
  CHECK(verdict({}) == "balanced ");
}

TEST_CASE(
    "Bottleneck: the speedup without waits and overhead differs from the gain of the advice") {
  const Bottleneck found =
      find_bottleneck({.wall_s = 10, .data_wait_s = 1, .forward_s = 8, .other_s = 1}, {});
  CHECK(found.without_waits == Approx(1.25));
  CHECK_FALSE(found.gain.high);  // batch size, threads and precision were not compared
  CHECK(find_bottleneck({.wall_s = 10, .data_wait_s = 10}, {}).without_waits == Approx(1000));
}
