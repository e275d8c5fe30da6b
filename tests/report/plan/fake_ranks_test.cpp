#include "report/plan/multi_rank_plan.hpp"
#include "report/plan/plan.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::report;

namespace {

constexpr std::int64_t kMega = 1 << 20;

FakeRanks eight() {
  FakeRanks fake{.ranks = 8,
                 .batch_size = 64,
                 .accumulate = 2,
                 .steps_per_epoch = 59,
                 .epochs = 3,
                 .steps = 177};
  fake.splits = {{.name = "train",
                  .samples = 60'000,
                  .batches = 118,
                  .last_batch = 96,
                  .last_least = 12,
                  .last_most = 12},
                 {.name = "val",
                  .samples = 10'003,
                  .batches = 20,
                  .last_batch = 275,
                  .last_least = 34,
                  .last_most = 35}};
  fake.buckets = {{12, 3 * kMega}, {1, kMega}};
  events::Measured model;
  model.device = "cpu";
  model.weight_bytes = 10 * kMega;
  model.gradient_bytes = 10 * kMega;
  model.optimizer_bytes = 20 * kMega + 1;
  model.activation_bytes = 5 * kMega;
  model.batch_bytes = kMega;
  model.kernel_bytes = 2 * kMega;
  fake.model = model;
  fake.optimizer_share = 5 * kMega / 2;
  fake.loading_bytes = 7 * kMega;
  return fake;
}

}  // namespace

TEST_CASE("fake ranks: a rank needs all parts of a step and the largest shard of the optimizer") {
  const FakeRanks fake = eight();
  CHECK(rank_step_bytes(fake, false) == 48 * kMega + 1);
  CHECK(rank_step_bytes(fake, true) == 28 * kMega + 5 * kMega / 2);
  FakeRanks without = fake;
  without.model.reset();
  CHECK(rank_step_bytes(without, false) == 0);
}

TEST_CASE("fake ranks: the text shows steps, last batches, buckets and memory") {
  const std::string text = fake_ranks_text(eight(), {});
  CHECK_THAT(
      text,
      Contains("8 ranks    1,024 samples per step: 64 on each rank in each of 2 batches; 59 steps "
               "per epoch, 3 epochs, 177 steps in all\n"));
  CHECK_THAT(text,
             Contains("60,000 samples, 118 batches on each rank; the last batch has 12 samples on "
                      "each rank (96 in all)\n") &&
                 Contains("the last batch has 34 to 35 samples on each rank (275 in all)\n"));
  CHECK_THAT(text, Contains("2 buckets: 3.0 MiB of 12 gradients, 1.0 MiB of 1 gradient\n"));
  CHECK_THAT(text, Contains("48.0 MiB for a step on the CPU, 20.0 MiB of it optimizer state; 7.0 "
                            "MiB of host memory for loading\n") &&
                       Contains("30.5 MiB if the optimizer state is sharded (zero1): 17.5 MiB "
                                "less\n"));
  CHECK_THAT(text, Contains("found no problem with this number of ranks") && !Contains("refused"));
}

TEST_CASE("fake ranks: problems are shown instead of the success message") {
  FakeRanks fake = eight();
  fake.problems = {"too\x1b many"};
  fake.splits[0].dropped = 1;
  const std::string text = fake_ranks_text(fake, {});
  CHECK_THAT(text, Contains("refused: too\\x1b many") &&
                       !Contains("found no problem with this number of ranks") &&
                       Contains("1 sample is dropped (drop_last)"));
}

TEST_CASE("fake ranks: JSON is part of the plan's JSON") {
  Plan plan;
  plan.fake = eight();
  const Json document = plan_document(plan);
  const Json& fake = document["fake_ranks"];
  CHECK(fake["schema"] == "trainctl.fake_ranks/2");
  CHECK(fake["global_batch"] == 512);
  CHECK(fake["samples_per_step"] == 1024);
  CHECK(fake["memory"]["shards_optimizer"] == false);
  CHECK(fake["splits"][1]["last_batch"]["max_per_rank"] == 35);
  CHECK(fake["buckets"][0]["bytes"] == 3 * kMega);
  CHECK(fake["memory"]["step_bytes"] == 48 * kMega + 1);
  CHECK(fake["memory"]["step_bytes_zero1"] == rank_step_bytes(*plan.fake, true));
  CHECK(document["scaling"].is_null());
  plan.fake->model.reset();
  plan.fake->buckets.clear();
  CHECK(plan_document(plan)["fake_ranks"]["memory"].is_null());
  CHECK_THAT(plan_text(plan, {}), Contains("8 ranks    1,024 samples per step") &&
                                      !Contains("optimizer state is sharded"));
}
