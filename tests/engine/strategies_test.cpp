#include "checkpoint/container.hpp"
#include "checkpoint/store.hpp"
#include "engine/rank_runs.hpp"
#include "stages/builtin.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <set>

using namespace trainctl;
using namespace rank_runs;
using spec::Strategy;

namespace {

/// Returns options with a rule that must select the same parameters on every rank.
std::string options_of(const std::string& optimizer) {
  const std::string common = "{lr: 0.02, weight_decay: 0.01, no_weight_decay_on: [bias]";
  return common + (optimizer == "sgd" || optimizer == "rmsprop" ? ", momentum: 0.9}" : "}");
}

void clip_and_average(FakeRun& run, int /*rank*/) {
  run.options.clip = 0.5;
  run.options.averaging = train::Averaging{0.9, {1}, 0};
}

Plan zero_plan(const std::string& optimizer, Strategy strategy) {
  Plan plan;
  plan.optimizer = optimizer;
  plan.optimizer_options = options_of(optimizer);
  plan.strategy = strategy;
  plan.prepare = clip_and_average;
  return plan;
}

std::set<std::string> optimizer_names(const std::filesystem::path& checkpoint, int rank) {
  const container::File part(checkpoint::Store::part(checkpoint, rank));
  std::set<std::string> names;
  for (const container::Entry& entry : part.entries()) {
    if (entry.name.starts_with("optimizer/")) names.insert(entry.name);
  }
  return names;
}

Plan part_of(Plan plan, const std::filesystem::path& folder, std::int64_t epochs) {
  plan.folder = folder;
  plan.epochs = epochs;
  return plan;
}

Plan rest_of(Plan plan, const std::filesystem::path& folder) {
  plan.folder = folder;
  plan.resume = last_of(folder);
  return plan;
}

std::int64_t count_of(const RankResult& result, const std::string& exchange) {
  return std::ranges::count(result.exchanges, exchange);
}

const char* const kConvNet =
    "[{type: conv2d, out_channels: 4, kernel_size: 1}, batch_norm2d, relu, "
    "{type: conv2d, out_channels: 5, kernel_size: 2}, batch_norm2d, relu, flatten, linear]";

}  // namespace

TEST_CASE(
    "zero1: weights are bitwise equal to ddp's with every optimizer, clipping and averaging") {
  for (const std::string& optimizer : stages::builtin_catalog().optimizers.names()) {
    INFO(optimizer);
    const auto all = run(zero_plan(optimizer, Strategy::ddp));
    const auto shares = run(zero_plan(optimizer, Strategy::zero1));
    CHECK(shares[0].losses == all[0].losses);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      CHECK(same_bits(shares[rank].weights, all[rank].weights));
    // Two parameters on three ranks: each rank has the state of at most one.
    CHECK(shares[0].optimizer.size() + shares[1].optimizer.size() == all[0].optimizer.size());
    CHECK(shares[0].optimizer.size() < all[0].optimizer.size());
    CHECK(shares[2].optimizer.empty());
  }
}

TEST_CASE("zero1: a checkpoint stores each state once, with its owner, and resumes bitwise equal") {
  for (const char* optimizer : {"adamw", "sgd"}) {
    INFO(optimizer);
    const Plan plan = zero_plan(optimizer, Strategy::zero1);
    const auto whole = run(plan);
    TempFolder folder;
    run(part_of(plan, folder.path(), 1));
    const auto first = optimizer_names(last_of(folder.path()), 0);
    const auto second = optimizer_names(last_of(folder.path()), 1);
    CHECK_FALSE(first.empty());
    CHECK_FALSE(second.empty());
    CHECK(optimizer_names(last_of(folder.path()), 2).empty());
    for (const std::string& name : first) CHECK_FALSE(second.contains(name));
    const auto resumed = run(rest_of(plan, folder.path()));
    for (std::size_t rank = 0; rank < whole.size(); ++rank) {
      CHECK(same_bits(resumed[rank].weights, whole[rank].weights));
      CHECK(same_bits(resumed[rank].optimizer, whole[rank].optimizer));
    }
  }
}

TEST_CASE("zero1: ddp and zero1 resume from each other's checkpoints, also on fewer ranks") {
  const Plan ddp = zero_plan("adam", Strategy::ddp);
  const Plan zero = zero_plan("adam", Strategy::zero1);
  for (const int world : {3, 2, 1}) {
    INFO("on " << world << " ranks");
    std::vector<std::vector<RankResult>> ends;
    for (const Plan& before : {ddp, zero}) {
      for (const Plan& after : {ddp, zero}) {
        TempFolder folder;
        run(part_of(before, folder.path(), 1));
        Plan rest = rest_of(after, folder.path());
        rest.world = world;
        rest.batch = 12 / world;
        ends.push_back(run(rest));
      }
    }
    for (const auto& end : ends) {
      for (std::size_t rank = 0; rank < end.size(); ++rank)
        CHECK(same_bits(end[rank].weights, ends[0][0].weights));
    }
  }
}

TEST_CASE("local_sgd: sync_every=1 equals ddp within rounding, also with uneven batches") {
  Plan plan;
  plan.optimizer_options = "{lr: 0.1}";
  const auto together = run(plan);
  plan.strategy = Strategy::local_sgd;
  const auto local = run(plan);
  CHECK(all_close(local[0].weights, together[0].weights));
  CHECK(same_bits(local[1].weights, local[0].weights));
}

TEST_CASE("local_sgd: ranks average every sync_every steps only and end with equal weights") {
  Plan plan;
  plan.samples = 120;  // ten steps per epoch
  plan.strategy = Strategy::local_sgd;
  plan.sync_every = 4;
  std::vector<std::vector<at::Tensor>> seen(3);
  plan.prepare = [&](FakeRun& run, int rank) {
    run.options.log_every = 1000;
    run.loss.after = [&run, &seen, rank](const at::Tensor& loss, int) {
      if (run.model.mode == stage::RunMode::train)
        seen[static_cast<std::size_t>(rank)].push_back(run.model.weight.detach().clone());
      return loss;
    };
  };
  const auto ranks = run(plan);
  for (const RankResult& rank : ranks) {
    // After steps 4, 8 and 10 of two epochs: weight and bias are in one flat copy each.
    CHECK(count_of(rank, "average of the weights") == 2 * 3 * 2);
    CHECK(count_of(rank, "consensus on stopping") <= 6 + 6);
    CHECK(same_bits(rank.weights, ranks[0].weights));
  }
  REQUIRE(seen[0].size() == 20);
  for (std::size_t step = 0; step < seen[0].size(); ++step) {
    const std::size_t in_epoch = step % 10;
    const bool met = in_epoch == 0 || in_epoch == 4 || in_epoch == 8;
    INFO("before step " << step);
    CHECK(torch::equal(seen[1][step], seen[0][step]) == met);
  }
}

TEST_CASE("local_sgd: ranks average before every checkpoint, and resuming is bitwise equal") {
  Plan plan;
  plan.samples = 48;  // four steps per epoch
  plan.strategy = Strategy::local_sgd;
  plan.sync_every = 3;
  const auto whole = [&] {
    TempFolder folder;
    Plan saving = plan;
    saving.folder = folder.path();
    saving.prepare = [](FakeRun& run, int) { run.options.saving->every_n_steps = 2; };
    return run(saving);
  }();
  TempFolder folder;
  plan.prepare = [](FakeRun& run, int) { run.options.saving->every_n_steps = 2; };
  Plan first = part_of(plan, folder.path(), 2);
  first.prepare = [](FakeRun& run, int) {
    run.options.saving->every_n_steps = 2;
    run.options.max_steps = 6;  // within the second epoch
  };
  const auto cut = run(first);
  CHECK(same_bits(cut[1].weights, cut[0].weights));
  const auto resumed = run(rest_of(plan, folder.path()));
  for (std::size_t rank = 0; rank < whole.size(); ++rank) {
    CHECK(same_bits(resumed[rank].weights, whole[rank].weights));
    CHECK(same_bits(resumed[rank].optimizer, whole[rank].optimizer));
  }
  CHECK_FALSE(same_bits(whole[1].optimizer, whole[0].optimizer));  // each has its own momentum
}

TEST_CASE("local_sgd: ranks average before a weight average is updated") {
  Plan plan;
  plan.samples = 120;  // ten steps per epoch
  plan.epochs = 1;
  plan.strategy = Strategy::local_sgd;
  plan.sync_every = 100;
  std::vector<at::Tensor> seen(3);  // by rank, after the averaged step
  plan.prepare = [&](FakeRun& run, int rank) {
    run.options.averaging = train::Averaging{.decay = {}, .every_n_steps = {3}, .start_epoch = 0};
    run.loss.after = [&run, &seen, rank, steps = 0](const at::Tensor& loss, int) mutable {
      const bool trains = run.model.mode == stage::RunMode::train;
      if (trains && steps++ == 3)
        seen[static_cast<std::size_t>(rank)] = run.model.weight.detach().clone();
      return loss;
    };
  };
  const auto ranks = run(plan);
  CHECK(torch::equal(seen[1], seen[0]));
  CHECK(same_bits(ranks[2].weights, ranks[0].weights));
}

namespace {

Plan power_plan() {
  Plan plan;
  plan.model =
      "[flatten, {type: linear, out_features: 40}, relu, {type: linear, out_features: 40}, relu, "
      "linear]";
  plan.prepare = [](FakeRun& run, int) {
    run.buckets.compression = dist::Compression::powersgd;
    run.buckets.powersgd_rank = 2;
  };
  return plan;
}

/// Resumes for a third epoch with the same number of rows per step.
std::vector<RankResult> third_epoch(const Plan& plan, const std::filesystem::path& folder,
                                    int world) {
  Plan rest = rest_of(plan, folder);
  rest.world = world;
  rest.batch = 12 / world;
  rest.epochs = 3;
  return run(rest);
}

}  // namespace

TEST_CASE("PowerSGD: its state is saved in checkpoints, and resuming is bitwise equal") {
  const Plan plan = power_plan();
  const auto whole = run(plan);
  TempFolder folder;
  run(part_of(plan, folder.path(), 1));
  const auto resumed = run(rest_of(plan, folder.path()));
  for (std::size_t rank = 0; rank < whole.size(); ++rank) {
    CHECK(same_bits(whole[rank].weights, whole[0].weights));
    CHECK(same_bits(resumed[rank].weights, whole[rank].weights));
  }
  // The residuals of three ranks are divided between two.
  const auto others = third_epoch(plan, folder.path(), 2);
  CHECK(same_bits(others[1].weights, others[0].weights));
}

TEST_CASE("PowerSGD: one rank resumes from several ranks, and several from one") {
  const Plan plan = power_plan();
  TempFolder several, one;
  run(part_of(plan, several.path(), 2));
  const auto alone = third_epoch(plan, several.path(), 1);
  CHECK(alone[0].finished.epochs == 3);
  Plan first = part_of(plan, one.path(), 2);
  first.world = 1;
  first.batch = 12;
  run(first);
  const auto ranks = third_epoch(plan, one.path(), 2);
  CHECK(ranks[0].finished.epochs == 3);
  CHECK(same_bits(ranks[1].weights, ranks[0].weights));
}

TEST_CASE("sync_batch_norm: several ranks equal one rank with all samples") {
  Plan plan;
  plan.model = kConvNet;
  plan.optimizer_options = "{lr: 0.05}";
  plan.prepare = [](FakeRun& run, int) { run.options.sync_batch_norm = true; };
  const RankResult alone = run_alone(plan);
  const auto ranks = run(plan);
  REQUIRE(ranks[0].losses.size() == alone.losses.size());
  for (std::size_t step = 0; step < alone.losses.size(); ++step)
    CHECK(ranks[0].losses[step] == Approx(alone.losses[step]).epsilon(2e-5));
  CHECK(all_close(ranks[0].weights, alone.weights));  // including running averages
  CHECK(same_bits(ranks[2].weights, ranks[0].weights));
  plan.prepare = {};
  CHECK_FALSE(all_close(run(plan)[0].weights, alone.weights));
}

TEST_CASE("gradient compression: bf16 trains almost as well, with equal weights on all ranks") {
  Plan plan;
  const auto exact = run(plan);
  plan.prepare = [](FakeRun& run, int) { run.buckets.compression = dist::Compression::bf16; };
  const auto rounded = run(plan);
  CHECK(same_bits(rounded[2].weights, rounded[0].weights));
  CHECK_FALSE(same_bits(rounded[0].weights, exact[0].weights));
  CHECK(rounded[0].losses.back() == Approx(exact[0].losses.back()).epsilon(0.05));
}
