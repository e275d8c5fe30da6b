#include "checkpoint/folder.hpp"
#include "checkpoint/verify.hpp"
#include "device/device.hpp"
#include "engine/engine_run.hpp"
#include "spec/experiment/job.hpp"
#include "support/catch.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

using namespace trainctl;
using engine_run::Ended;
using engine_run::kSmall;
using engine_run::run_engine;
using engine_run::small_with;

TEST_CASE("engine: SIGINT exits with 130, and SIGTERM with 75 and a checkpoint of the step") {
  TempFolder folder;
  CHECK(run_engine(folder, kSmall, SIGINT).code == 130);
  TempFolder other;
  const Ended ended = run_engine(other, kSmall, SIGTERM);
  CHECK(ended.code == 75);  // there is a checkpoint of the step
  REQUIRE(ended.find<events::Finished>() != nullptr);
  CHECK(ended.find<events::Finished>()->stop_reason == "signal");
  CHECK(ended.find<events::Finished>()->global_step == 1);
}

TEST_CASE("engine: without checkpoints, SIGTERM exits with 143") {
  TempFolder folder;
  const std::string config = small_with("checkpoint: {save_top_k: 0, save_last: false}\n");
  CHECK(run_engine(folder, config, SIGTERM).code == 143);
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoints"));
}

TEST_CASE("resume: a run stopped by a signal ends with the digests of an uninterrupted run") {
  TempFolder whole;
  const Ended expected = run_engine(whole, kSmall);
  REQUIRE(expected.code == 0);
  TempFolder folder;
  REQUIRE(run_engine(folder, kSmall, SIGTERM).code == 75);
  const std::filesystem::path last = std::filesystem::canonical(folder / "checkpoints/last");
  std::ofstream(folder / spec::kJobFile)
      << spec::dump_job({.kind = spec::JobKind::train, .resume = last});
  const Ended ended = run_engine(folder, kSmall);
  REQUIRE(ended.code == 0);
  const auto* resumed = ended.find<events::Resumed>();
  REQUIRE(resumed != nullptr);
  CHECK(resumed->global_step == 1);
  CHECK(resumed->step_in_epoch == 1);
  CHECK(resumed->why_not.empty());
  const auto* finished = ended.find<events::Finished>();
  CHECK(finished->parameter_digest == expected.find<events::Finished>()->parameter_digest);
  CHECK(finished->data_digest == expected.find<events::Finished>()->data_digest);
  CHECK(finished->epochs == 2);
}

TEST_CASE("auroc: a resumed epoch has the value of an uninterrupted one") {
  std::string config = kSmall;
  config.replace(config.find("[accuracy]"), 10, "[auroc, accuracy]");
  const auto areas = [](const Ended& ended) {
    std::vector<double> values;
    for (const auto& event : ended.events) {
      const auto* epoch = std::get_if<events::EpochEnded>(&event);
      for (const auto& [name, value] : epoch != nullptr ? epoch->metrics : events::Metrics())
        if (name.ends_with("/auroc")) values.push_back(value);
    }
    return values;
  };
  TempFolder whole;
  const auto expected = areas(run_engine(whole, config));
  REQUIRE(expected.size() == 2 * 2);  // two epochs, two splits
  CHECK(expected[0] > 0.5);
  TempFolder folder;
  REQUIRE(run_engine(folder, config, SIGTERM).code == 75);
  const std::filesystem::path last = std::filesystem::canonical(folder / "checkpoints/last");
  std::ofstream(folder / spec::kJobFile)
      << spec::dump_job({.kind = spec::JobKind::train, .resume = last});
  CHECK(areas(run_engine(folder, config)) == expected);
}

TEST_CASE("resume: the number of threads is kept and not probed again") {
  TempFolder folder;
  REQUIRE(run_engine(folder, kSmall, SIGTERM).code == 75);
  const std::filesystem::path last = std::filesystem::canonical(folder / "checkpoints/last");
  checkpoint::Manifest manifest = checkpoint::read_manifest(last);
  manifest.facts["threads_taken"] = "0.4";
  container::write(last / checkpoint::kManifestName, {}, checkpoint::to_json(manifest));
  std::ofstream(folder / spec::kJobFile)
      << spec::dump_job({.kind = spec::JobKind::train, .resume = last});
  const std::string text = kSmall;
  const Ended ended = run_engine(folder, text.substr(0, text.rfind(", num_threads")) + " }\n");
  REQUIRE(ended.code == 0);
  CHECK(ended.find<events::RunStarted>()->num_threads == 1);
  CHECK(ended.find<events::RunStarted>()->num_threads_why == "as at the start of the run");
  CHECK(ended.find<events::RunStarted>()->num_threads_taken == 0.4);
  const std::filesystem::path next = std::filesystem::canonical(folder / "checkpoints/last");
  CHECK(checkpoint::read_manifest(next).facts.at("threads_taken") == "0.4");
  CHECK(ended.find<events::Resumed>()->why_not.empty());
}

TEST_CASE("resume: another GPU or CUDA version is reported as not bitwise") {
  TempFolder folder;
  REQUIRE(run_engine(folder, kSmall, SIGTERM).code == 75);
  const std::filesystem::path last = std::filesystem::canonical(folder / "checkpoints/last");
  checkpoint::Manifest manifest = checkpoint::read_manifest(last);
  CHECK_FALSE(manifest.facts.contains("gpu"));
  manifest.facts["gpu"] = "NVIDIA X";
  manifest.facts["cuda"] = "runtime 13.0";
  container::write(last / checkpoint::kManifestName, {}, checkpoint::to_json(manifest));
  std::ofstream(folder / spec::kJobFile)
      << spec::dump_job({.kind = spec::JobKind::train, .resume = last});
  const Ended ended = run_engine(folder, kSmall);
  REQUIRE(ended.code == 0);
  REQUIRE(ended.find<events::Resumed>() != nullptr);
  CHECK_FALSE(ended.find<events::Resumed>()->bitwise);
  CHECK_THAT(ended.find<events::Resumed>()->why_not,
             Contains("the GPU was NVIDIA X") && Contains("the CUDA version"));
}

TEST_CASE("resume: with accepted data changes, the epoch restarts with a warning") {
  TempFolder folder;
  REQUIRE(run_engine(folder, kSmall, SIGTERM).code == 75);
  const std::filesystem::path last = std::filesystem::canonical(folder / "checkpoints/last");
  checkpoint::Manifest manifest = checkpoint::read_manifest(last);
  manifest.facts["data.train"] = "earlier";
  container::write(last / checkpoint::kManifestName, {}, checkpoint::to_json(manifest));
  std::ofstream(folder / spec::kJobFile) << spec::dump_job(
      {.kind = spec::JobKind::train, .resume = last, .accepts_data_change = true});
  const Ended ended = run_engine(folder, kSmall);
  REQUIRE(ended.code == 0);
  REQUIRE(ended.find<events::Warning>() != nullptr);
  CHECK_THAT(ended.find<events::Warning>()->message,
             Contains("dataset.train: earlier -> ") &&
                 EndsWith("epoch 1 starts again from its first batch with the new data"));
  const auto* resumed = ended.find<events::Resumed>();
  REQUIRE(resumed != nullptr);
  CHECK(resumed->step_in_epoch == 0);
  CHECK(resumed->global_step == 1);
  CHECK_FALSE(resumed->bitwise);
  CHECK_THAT(resumed->why_not, Contains("dataset.train: earlier"));
  CHECK(ended.find<events::Finished>()->epochs == 2);
  CHECK(ended.find<events::Finished>()->global_step == 1 + 2 * 10);
}

TEST_CASE("checkpoint: the manifest of a GPU run records the GPU and its libraries", "[gpu]") {
  if (device::cuda_devices() == 0) skip("no GPU");
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("accelerator: cpu"), 16, "accelerator: gpu");
  REQUIRE(run_engine(folder, config).code == 0);
  const auto facts = checkpoint::read_manifest(folder / "checkpoints/last").facts;
  CHECK_THAT(facts.at("gpu"), Contains("compute capability"));
  CHECK_THAT(facts.at("cuda"), Contains("runtime ") && Contains("NCCL 2."));
}
