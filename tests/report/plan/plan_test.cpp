#include "report/plan/plan.hpp"

#include "support/catch.hpp"
#include "support/golden.hpp"

using namespace trainctl;
using namespace trainctl::report;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

PlannedSplit photographs() {
  return {.name = "train",
          .dataset = "image_folder",
          .samples = 1'281'167,
          .dataset_bytes = 120 * kMiB,
          .cache = "encoded",
          .cache_bytes = 2000 * kMiB,
          .slots = 8,
          .slot_bytes = 9 * kMiB,
          .order_bytes = 10 * kMiB,
          .threads = 4,
          .scratch_bytes = 3 * kMiB / 2};
}

PlannedSplit packed() {
  return {.name = "val",
          .dataset = "pack",
          .samples = 1,
          .mapped_bytes = 700 * kMiB,
          .cache = "none",
          .slots = 1,
          .slot_bytes = 9 * kMiB,
          .scratch_bytes = kMiB,
          .ahead_bytes = 30 * kMiB};
}

Plan two_ranks() {
  return {.config = "photographs.yaml",
          .device = "gpu",
          .ranks = 2,
          .ranks_here = 2,
          .cores = 16,
          .batch_size = 64,
          .steps_per_epoch = 10'009,
          .epochs = 90,
          .auto_workers = true,
          .workers = 4,
          .auto_prefetch = true,
          .prefetch_factor = 2,
          .available_bytes = 64'000 * kMiB,
          .cache_budget = 32'000 * kMiB,
          .splits = {photographs(), packed()}};
}

}  // namespace

TEST_CASE("a plan shows the memory by part, of each split, a process and all of them") {
  const Plan plan = two_ranks();
  CHECK(plan.splits[0].total() == (120 + 2000 + 72 + 10 + 6) * kMiB);
  CHECK(plan.rank_bytes() == (2208 + 40) * kMiB);
  CHECK(plan.node_bytes() == 2 * plan.rank_bytes());  // mapped files are shared
  check_golden("report/plan.txt", plan_text(plan, {}));
  check_golden("report/plan.json", to_pretty(plan_document(plan)) + "\n");
}

TEST_CASE("a plan of several nodes counts the memory of one, and the samples of all") {
  Plan plan = two_ranks();
  plan.ranks = 6;
  CHECK(plan.node_bytes() == 2 * plan.rank_bytes());
  CHECK_THAT(plan_text(plan, {}), Contains("6 processes, 2 of them here, on gpu") &&
                                      Contains("384 samples per step") && Contains(" 2 processes"));
  const Json document = plan_document(plan);
  CHECK(document["ranks"] == 6);
  CHECK(document["ranks_here"] == 2);
  CHECK(document["global_batch"] == 384);
}

TEST_CASE("a plan counts the samples of a step with all its batches") {
  Plan plan = two_ranks();
  plan.accumulate = 3;
  CHECK_THAT(plan_text(plan, {}), Contains("384 samples per step (3 batches of 64 each)"));
  const Json document = plan_document(plan);
  CHECK(document["global_batch"] == 128);
  CHECK(document["samples_per_step"] == 384);
}

TEST_CASE("Plan: a probe of batches or of the step on a busy machine warns with the share") {
  Plan plan;
  CHECK(contention_warning(plan).empty());
  plan.probe = PlannedProbe{.batch_s = 0.07};
  CHECK(contention_warning(plan).empty());
  plan.probe->taken_cores = 0.4;  // as with --no-model
  CHECK_THAT(
      contention_warning(plan),
      StartsWith("warning: other processes used 40 % of the cores while batches were loaded"));
  CHECK(plan_document(plan)["probe"]["taken_cores"].get<double>() == Approx(0.4));
  plan.model.emplace();
  plan.model->taken_cores = 0.6;
  CHECK_THAT(contention_warning(plan), Contains("60 %") && Contains("batches and the step"));
  plan.probe->taken_cores = 0;
  CHECK_THAT(contention_warning(plan), Contains("60 %") && Contains("while the step was timed"));
}

TEST_CASE("a plan with a probe says what auto makes of it, the longest steps first") {
  Plan plan = two_ranks();
  plan.probe = PlannedProbe{0.071, 3, {{1.349, 0}, {0.08165, 1}, {0.0408, 2}, {0.0272, 3}, {0, 4}}};
  const auto text = [&] { return plan_text(plan, {}); };
  CHECK_THAT(text(), Contains("one thread loads a batch in 71.0 ms; auto uses no workers for steps "
                              "of 1.35 s or longer, 1 from 81.7 ms, 2 from 40.8 ms, at most "
                              "4 below 27.2 ms; prefetch factor 3\n"));
  const Json probe = plan_document(plan)["probe"];
  CHECK(probe["batch_s"] == 0.071);
  CHECK(probe["auto_workers"][1] == Json{{"least_step_s", 0.08165}, {"workers", 1}});
  plan.probe->workers = {{1.349, 0}, {0, 1}};
  CHECK_THAT(text(), Contains("for steps of 1.35 s or longer, at most 1 below 1.35 s;"));
  plan.probe->workers = {{0, 0}};
  CHECK_THAT(text(),
             Contains("one thread loads a batch in 71.0 ms; auto uses no workers; prefetch"));
  plan.probe->workers.clear();
  CHECK_THAT(text(), Contains("ms; prefetch factor 3\n"));
  CHECK(plan_document(plan)["probe"]["auto_workers"].is_null());
}

TEST_CASE("a plan of one process has one column for it, and no rows of nothing") {
  Plan plan{.config = "one.yaml", .batch_size = 1, .steps_per_epoch = 1};
  plan.available_bytes = 8 * kMiB;
  plan.splits = {{.name = "train",
                  .dataset = "tokens",
                  .samples = 1,
                  .cache = "none",
                  .slots = 1,
                  .slot_bytes = kMiB}};
  check_golden("report/plan_one.txt", plan_text(plan, {}));
}

TEST_CASE("the verdict of a plan is the worst that is known of it") {
  Plan plan = two_ranks();
  CHECK(std::string(verdict_of(plan)) == "fits");
  plan.shrunk = {"train: 3 of 8 batch slots fit"};
  CHECK(std::string(verdict_of(plan)) == "shrinks");
  CHECK_THAT(plan_text(plan, {}), Contains("3 of 8 batch slots fit"));
  plan.available_bytes = plan.node_bytes() - 1;
  CHECK(std::string(verdict_of(plan)) == "exceeds");
  CHECK_THAT(plan_text(plan, {}), Contains("lower loader.batch_size"));
  plan.refusal = "dataset.train: too much";
  CHECK(std::string(verdict_of(plan)) == "refused");
  CHECK_THAT(plan_text(plan, {}), Contains("exit code 11: dataset.train: too much"));
  CHECK(plan_document(plan)["refusal"] == "dataset.train: too much");
}

TEST_CASE("a plan says whether the threads were asked for") {
  Plan plan = two_ranks();
  plan.auto_workers = plan.auto_prefetch = false;
  CHECK_THAT(plan_text(plan, {}), Contains("4 threads in each process; prefetch factor 2\n"));
  plan.workers = 0;
  CHECK_THAT(plan_text(plan, {}), Contains("the training thread loads its batches"));
}

TEST_CASE("a plan of remote data counts what is on its way") {
  Plan plan = two_ranks();
  CHECK(plan_text(plan, {}).find("transfers") == std::string::npos);
  const std::uint64_t before = plan.splits[0].total();
  plan.splits[0].transfer_bytes = 96 * kMiB;
  CHECK(plan.splits[0].total() == before + 96 * kMiB);
  CHECK_THAT(plan_text(plan, {}), Contains("transfers                  96.0 MiB"));
}
