#include "base/json.hpp"
#include "support/catch.hpp"
#include "support/program.hpp"
#include "support/temp_folder.hpp"

#include <fstream>

using trainctl::Json;

namespace {

std::string small_config(const TempFolder& folder) {
  const std::string path = (folder / "small.yaml").string();
  std::ofstream(path) << R"(
dataset:
  train:
    type: synthetic_digits
    samples: 1000
    transforms: [{type: random_crop, size: 28, padding: 2}]
  val: {type: synthetic_digits, split: test, samples: 200}
loader: {batch_size: 50}
model: {type: mlp, hidden: [8]}
optimizer: {type: adam}
trainer: {max_epochs: 3, accelerator: cpu}
)";
  return path;
}

ProgramRun plan(const TempFolder& folder, std::vector<std::string> words) {
  words.insert(words.begin(), {"plan", small_config(folder), "--no-model"});
  return run_program(words, {.environment = {{"LC_ALL", "C"}}});
}

Json plan_of(const TempFolder& folder, std::vector<std::string> words) {
  words.emplace_back("--json");
  return plan(folder, std::move(words)).json();
}

}  // namespace

TEST_CASE("plan prints the memory of a run and says that it fits", "[smoke]") {
  const TempFolder folder;
  const ProgramRun run = plan(folder, {"loader.num_workers=2", "loader.prefetch_factor=3"});
  CAPTURE(run.err);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.out, Contains("50 samples a step, 20 steps an epoch, 3 epochs") &&
                          Contains("6 x ") && Contains("2 threads; prefetch factor 3") &&
                          Contains("fits: ") && Contains("not measured: --no-model"));
  const Json document = plan_of(folder, {"loader.num_workers=2", "loader.prefetch_factor=3"});
  CHECK(document["schema"] == "trainctl.plan/1");
  CHECK(document["verdict"] == "fits");
  CHECK(document["model"].is_null());
  CHECK(document["no_model"] == "--no-model");
  CHECK(document["num_workers"]["auto"] == false);
  const Json& train = document["splits"][0];
  CHECK(train["samples"] == 1000);
  CHECK(train["dataset_bytes"] == 1000 * 28 * 28 + 1000);
  CHECK(train["slots"]["number"] == 6);
  CHECK(train["slots"]["bytes_each"] == 50 * 784 + 32 + 50 * 8 + 48);
  CHECK(document["node_bytes"] == document["rank_bytes"]);
}

TEST_CASE("plan counts every rank, and the most that auto may take", "[smoke]") {
  const TempFolder folder;
  const Json one = plan_of(folder, {"loader.num_workers=1"});
  const Json three = plan_of(folder, {"loader.num_workers=1", "trainer.devices=3"});
  CHECK(three["ranks"] == 3);
  CHECK(three["global_batch"] == 150);
  CHECK(three["node_bytes"] == 3 * one["rank_bytes"].get<std::uint64_t>());
  const Json automatic = plan_of(folder, {});
  CHECK(automatic["num_workers"]["auto"] == true);
  CHECK(automatic["num_workers"]["most"] >= 1);
  CHECK(automatic["prefetch_factor"]["auto"] == true);
}

TEST_CASE("plan of two nodes counts the memory and the cores of this one", "[smoke]") {
  const TempFolder folder;
  const Json alone = plan_of(folder, {});
  const Json two = plan_of(folder, {"trainer.num_nodes=2"});
  CHECK(two["ranks"] == 2);
  CHECK(two["ranks_here"] == 1);
  CHECK(two["global_batch"] == 100);
  CHECK(two["steps_per_epoch"] == 10);
  CHECK(two["node_bytes"] == two["rank_bytes"]);
  CHECK(two["num_workers"]["most"] == alone["num_workers"]["most"]);
}

TEST_CASE("plan with a probe says what auto would take", "[smoke]") {
  const TempFolder folder;
  CHECK(plan_of(folder, {})["probe"].is_null());
  const Json probe = plan_of(folder, {"--probe"})["probe"];
  CHECK(probe["batch_s"] > 0);
  CHECK(probe["prefetch_factor"] >= 2);
  const Json& by_step = probe["auto_workers"];
  REQUIRE_FALSE(by_step.empty());
  CHECK(by_step[0]["workers"] == 0);
  CHECK(by_step.back()["least_step_s"] == 0);
  const Json asked = plan_of(folder, {"--probe", "loader={num_workers: 2, prefetch_factor: 5}"});
  CHECK(asked["probe"]["auto_workers"].is_null());
  CHECK(asked["probe"]["prefetch_factor"] == 5);
  CHECK_THAT(plan(folder, {"--probe"}).out, Contains("to make on one thread; auto takes none"));
}

TEST_CASE("plan refuses as a run would, and shows what does not fit", "[smoke]") {
  const TempFolder folder;
  const ProgramRun run = plan(folder, {"dataset.cache={mode: decoded, budget: 1KiB}",
                                       "dataset.train.transforms=[{type: resize, size: 64}]",
                                       "dataset.val.transforms=[{type: resize, size: 64}]"});
  CHECK(run.exit_code == 11);
  CHECK_THAT(run.out, Contains("refused") && Contains("dataset.cache.budget"));
  const std::string reason = "error: a run would not start: ";
  CHECK_THAT(run.err, Contains(reason) && Contains("dataset.cache.budget"));
  const ProgramRun as_json = plan(folder, {"dataset.cache={mode: decoded, budget: 1KiB}", "--json",
                                           "dataset.train.transforms=[{type: resize, size: 64}]",
                                           "dataset.val.transforms=[{type: resize, size: 64}]"});
  CHECK(as_json.exit_code == 11);
  CHECK(as_json.json()["verdict"] == "refused");
  CHECK_THAT(as_json.err, Contains(reason));
  const Json small = plan_of(folder, {"dataset.cache={mode: auto, budget: 1KiB}",
                                      "dataset.train.transforms=[{type: resize, size: 64}]",
                                      "dataset.val.transforms=[{type: resize, size: 64}]"});
  CHECK(small["verdict"] == "shrinks");
  CHECK_THAT(small["shrunk"][0], Contains("none are kept"));
}

TEST_CASE("plan tells the mistakes of a file and of its data as validate does", "[smoke]") {
  const TempFolder folder;
  const ProgramRun config = plan(folder, {"loader.batch_sizes=3"});
  CHECK(config.exit_code == 2);
  CHECK_THAT(config.err, Contains("did you mean 'batch_size'?"));
  const ProgramRun data =
      plan(folder, {"dataset.train={type: mnist, root: " + (folder / "nowhere").string() + "}"});
  CHECK(data.exit_code == 9);
  CHECK(run_program({"plan", "nowhere.yaml"}).exit_code == 2);
}

TEST_CASE("a cache on a GPU is refused where the run would be on none", "[smoke]") {
  const TempFolder folder;
  for (const char* verb : {"validate", "plan"}) {
    // An empty list hides the GPUs of a machine that has some.
    const ProgramRun run = run_program(
        {verb, small_config(folder), "dataset.cache.mode=device", "trainer.accelerator=auto"},
        {.environment = {{"CUDA_VISIBLE_DEVICES", ""}}});
    CAPTURE(verb);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.err + run.out, Contains("'device' keeps the images in the memory of a GPU") &&
                                      Contains("write 'mode: decoded'"));
  }
}
