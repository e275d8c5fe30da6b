#include "report/plan/plan.hpp"

#include "support/catch.hpp"
#include "support/golden.hpp"

using namespace trainctl;
using namespace trainctl::report;

namespace {

constexpr std::uint64_t kMebi = 1 << 20;

PlannedSplit photographs() {
  return {.name = "train",
          .dataset = "image_folder",
          .samples = 1'281'167,
          .dataset_bytes = 120 * kMebi,
          .cache = "encoded",
          .cache_bytes = 2000 * kMebi,
          .slots = 8,
          .slot_bytes = 9 * kMebi,
          .order_bytes = 10 * kMebi,
          .threads = 4,
          .scratch_bytes = 3 * kMebi / 2};
}

PlannedSplit packed() {
  return {.name = "val",
          .dataset = "pack",
          .samples = 1,
          .mapped_bytes = 700 * kMebi,
          .cache = "none",
          .slots = 1,
          .slot_bytes = 9 * kMebi,
          .scratch_bytes = kMebi,
          .ahead_bytes = 30 * kMebi};
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
          .available_bytes = 64'000 * kMebi,
          .cache_budget = 32'000 * kMebi,
          .splits = {photographs(), packed()}};
}

}  // namespace

TEST_CASE("plan: memory is shown by part, split and process") {
  const Plan plan = two_ranks();
  CHECK(plan.splits[0].total() == (120 + 2000 + 72 + 10 + 6) * kMebi);
  CHECK(plan.rank_bytes() == (2208 + 40) * kMebi);
  CHECK(plan.node_bytes() == 2 * plan.rank_bytes());  // mapped files are shared
  check_golden("report/plan.txt", plan_text(plan, {}));
  check_golden("report/plan.json", to_pretty(plan_document(plan)) + "\n");
}

TEST_CASE("plan: a run on a GPU says whether its steps are captured, and if not, why") {
  Plan plan = two_ranks();
  CHECK(plan_document(plan)["cuda_graphs"].is_null());
  plan.no_graphs = "";
  CHECK_THAT(plan_text(plan, {}), Contains("graphs     steps are captured as CUDA graphs"));
  CHECK(plan_document(plan)["cuda_graphs"] == Json({{"captured", true}, {"obstacle", nullptr}}));
  plan.no_graphs = "trainer.cuda_graphs is false";
  CHECK_THAT(plan_text(plan, {}), Contains("not captured as CUDA graphs: trainer.cuda_graphs is"));
  CHECK(plan_document(plan)["cuda_graphs"]["obstacle"] == "trainer.cuda_graphs is false");
}

TEST_CASE("plan: several nodes have the memory of one node and the samples of all") {
  Plan plan = two_ranks();
  plan.ranks = 6;
  CHECK(plan.node_bytes() == 2 * plan.rank_bytes());
  CHECK_THAT(plan_text(plan, {}), Contains("6 processes, 2 on this machine, on gpu") &&
                                      Contains("384 samples per step") && Contains(" 2 processes"));
  const Json document = plan_document(plan);
  CHECK(document["ranks"] == 6);
  CHECK(document["ranks_here"] == 2);
  CHECK(document["global_batch"] == 384);
}

TEST_CASE("plan: samples per step include accumulated batches") {
  Plan plan = two_ranks();
  plan.accumulate = 3;
  CHECK_THAT(plan_text(plan, {}),
             Contains("384 samples per step (3 batches of 64 in each process)"));
  const Json document = plan_document(plan);
  CHECK(document["global_batch"] == 128);
  CHECK(document["samples_per_step"] == 384);
}

TEST_CASE("plan --probe: warns with the share of cores that other processes use") {
  Plan plan;
  CHECK(contention_warning(plan).empty());
  plan.probe = PlannedProbe{.batch_s = 0.07};
  CHECK(contention_warning(plan).empty());
  plan.probe->taken_cores = 0.4;  // --no-model gives such a plan
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

TEST_CASE("plan --probe: shows how many workers auto chooses, the longest steps first") {
  Plan plan = two_ranks();
  plan.probe = PlannedProbe{0.071, 3, {{1.349, 0}, {0.08165, 1}, {0.0408, 2}, {0.0272, 3}, {0, 4}}};
  const auto text = [&] { return plan_text(plan, {}); };
  CHECK_THAT(text(),
             Contains("one thread loads a batch in 71.0 ms; prefetch factor 3\n") &&
                 Contains(" auto uses no workers if a training step takes at least 1.35 s, 1 "
                          "worker from 81.7 ms to 1.35 s, 2 workers from 40.8 ms to 81.7 "
                          "ms, 3 to 4 workers below 40.8 ms\n"));
  const Json probe = plan_document(plan)["probe"];
  CHECK(probe["batch_s"] == 0.071);
  CHECK(probe["auto_workers"][1] == Json{{"least_step_s", 0.08165}, {"workers", 1}});
  plan.probe->workers = {{1.349, 0}, {0, 1}};
  CHECK_THAT(text(), Contains("takes at least 1.35 s, 1 worker below 1.35 s\n"));
  plan.probe->workers = {{0, 0}};
  CHECK_THAT(text(), Contains(" auto uses no workers\n"));
  plan.probe->workers.clear();
  CHECK_THAT(text(), Contains("ms; prefetch factor 3\n"));
  CHECK(plan_document(plan)["probe"]["auto_workers"].is_null());
}

TEST_CASE("plan: one process has one column and no empty rows") {
  Plan plan{.config = "one.yaml", .batch_size = 1, .steps_per_epoch = 1};
  plan.available_bytes = 8 * kMebi;
  plan.splits = {{.name = "train",
                  .dataset = "tokens",
                  .samples = 1,
                  .cache = "none",
                  .slots = 1,
                  .slot_bytes = kMebi}};
  check_golden("report/plan_one.txt", plan_text(plan, {}));
}

TEST_CASE("plan: the verdict is the most severe finding") {
  Plan plan = two_ranks();
  CHECK(std::string(verdict_of(plan)) == "fits");
  plan.shrunk = {"train: 3 of 8 prepared batches fit"};
  CHECK(std::string(verdict_of(plan)) == "shrinks");
  CHECK_THAT(plan_text(plan, {}), Contains("3 of 8 prepared batches fit"));
  plan.available_bytes = plan.node_bytes() - 1;
  CHECK(std::string(verdict_of(plan)) == "exceeds");
  CHECK_THAT(plan_text(plan, {}), Contains("lower loader.batch_size"));
  plan.refusal = "dataset.train: too much";
  CHECK(std::string(verdict_of(plan)) == "refused");
  CHECK_THAT(plan_text(plan, {}), Contains("exit code 11: dataset.train: too much"));
  CHECK(plan_document(plan)["refusal"] == "dataset.train: too much");
}

TEST_CASE("plan: shows explicit numbers of loader threads") {
  Plan plan = two_ranks();
  plan.auto_workers = plan.auto_prefetch = false;
  CHECK_THAT(plan_text(plan, {}), Contains("4 threads in each process; prefetch factor 2\n"));
  plan.workers = 0;
  CHECK_THAT(plan_text(plan, {}), Contains("the training thread loads its batches"));
}

TEST_CASE("plan: buffers for transfers of remote data are counted") {
  Plan plan = two_ranks();
  CHECK(plan_text(plan, {}).find("transfers") == std::string::npos);
  const std::uint64_t before = plan.splits[0].total();
  plan.splits[0].transfer_bytes = 96 * kMebi;
  CHECK(plan.splits[0].total() == before + 96 * kMebi);
  CHECK_THAT(plan_text(plan, {}), Contains("transfers                  96.0 MiB"));
}
