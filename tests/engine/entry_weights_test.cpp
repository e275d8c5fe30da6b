#include "base/safetensors.hpp"
#include "engine/engine_run.hpp"
#include "spec/experiment/job.hpp"
#include "support/catch.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

using namespace trainctl;
using engine_run::Ended;
using engine_run::kSmall;
using engine_run::run_engine;
using engine_run::small_with;

TEST_CASE("weights: a run starts from another run's weights, and frozen layers stay unchanged") {
  TempFolder first;
  REQUIRE(run_engine(first, kSmall).code == 0);
  const std::string weights =
      "weights: " + (first / "checkpoints/last.safetensors").string() + "\nfreeze: [fc1]\n";
  TempFolder folder;
  const Ended ended = run_engine(folder, kSmall + weights);
  REQUIRE(ended.code == 0);
  const auto* reported = ended.find<events::WeightsSet>();
  REQUIRE(reported != nullptr);
  CHECK(reported->format == "safetensors");
  CHECK(reported->loaded.size() == 4);
  CHECK(reported->frozen == std::vector<std::string>{"fc1.weight", "fc1.bias"});
  CHECK(ended.find<events::RunStarted>()->trainable_parameters == 16 * 10 + 10);
  const auto tensor = [](const TempFolder& run, const std::string& name) {
    const safetensors::File file(run / "checkpoints/last.safetensors");
    for (const safetensors::View& view : file.tensors()) {
      if (view.name == name)
        return std::string(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size());
    }
    return std::string();
  };
  CHECK(tensor(folder, "fc1.weight") == tensor(first, "fc1.weight"));
  CHECK(tensor(folder, "fc2.weight") != tensor(first, "fc2.weight"));
}

TEST_CASE("engine: other weight shapes exit with code 10, and an unmatched freeze pattern with 2") {
  TempFolder first;
  REQUIRE(run_engine(first, kSmall).code == 0);
  const std::string path = (first / "checkpoints/last.safetensors").string();
  TempFolder folder;
  std::string config = kSmall;
  config.replace(config.find("[16]"), 4, "[17]");
  const Ended unfit = run_engine(folder, config + "weights: " + path + "\n");
  CHECK(unfit.code == 10);
  REQUIRE(unfit.find<events::Failed>() != nullptr);
  CHECK_THAT(unfit.find<events::Failed>()->message,
             Contains("fc1.weight has the shape 16x784 in the file and 17x784 in the model"));
  const Ended misspelt = run_engine(folder, small_with("freeze: [fc3]\n"));
  CHECK(misspelt.code == 2);
  CHECK_THAT(misspelt.find<events::Failed>()->message,
             Contains("the model has no parameter 'fc3'"));
}

TEST_CASE("evaluate: metrics equal those of the training run, and predict writes every sample") {
  TempFolder trained;
  const Ended run = run_engine(trained, kSmall);
  REQUIRE(run.code == 0);
  std::map<std::string, double> expected;
  for (const auto& event : run.events) {
    if (const auto* epoch = std::get_if<events::EpochEnded>(&event))
      for (const auto& [name, value] : epoch->metrics) expected[name] = value;
  }
  for (const auto kind : {spec::JobKind::evaluate, spec::JobKind::predict}) {
    TempFolder folder;
    std::ofstream(folder / spec::kJobFile)
        << spec::dump_job({kind, "val", trained / "checkpoints/last.safetensors"});
    const Ended ended = run_engine(folder, kSmall, 0, spec::name_of(kind));
    REQUIRE(ended.code == 0);
    const auto* reported = ended.find<events::Evaluated>();
    REQUIRE(reported != nullptr);
    CHECK(reported->samples == 100);
    CHECK(reported->outputs == 10);
    CHECK_FALSE(reported->named);
    REQUIRE(reported->metrics.size() == 2);
    for (const auto& [name, value] : reported->metrics) CHECK(value == expected.at(name));
    CHECK(std::holds_alternative<events::Finished>(ended.events.back()));
    const auto logits = spec::part_file(folder.path(), "logits", 0);
    REQUIRE(std::filesystem::exists(logits) == (kind == spec::JobKind::predict));
    if (kind == spec::JobKind::evaluate) continue;
    CHECK(std::filesystem::file_size(logits) == 100 * 10 * sizeof(float));
    CHECK(std::filesystem::file_size(spec::part_file(folder.path(), "targets", 0)) == 100 * 8);
  }
}

TEST_CASE("predict: a split without labels writes no targets and has no metrics") {
  TempFolder trained;
  REQUIRE(run_engine(trained, kSmall).code == 0);
  TempFolder folder;
  spec::Job job{spec::JobKind::predict, "val", trained / "checkpoints/last.safetensors"};
  job.learned = spec::LearnedTargets{spec::Targets::classes, 10, /*labeled=*/false};
  std::ofstream(folder / spec::kJobFile) << spec::dump_job(job);
  const Ended ended = run_engine(folder, kSmall, 0, "predict");
  REQUIRE(ended.code == 0);
  const auto* reported = ended.find<events::Evaluated>();
  REQUIRE(reported != nullptr);
  CHECK_FALSE(reported->labeled);
  CHECK(reported->outputs == 10);
  CHECK(reported->metrics.empty());
  CHECK(std::filesystem::file_size(spec::part_file(folder.path(), "logits", 0)) ==
        100 * 10 * sizeof(float));
  CHECK_FALSE(std::filesystem::exists(spec::part_file(folder.path(), "targets", 0)));
}

TEST_CASE("engine: check and export do not open the data if the job states the model's input") {
  TempFolder trained;
  REQUIRE(run_engine(trained, kSmall).code == 0);
  std::string config = kSmall;
  const std::string_view data = "{ type: synthetic_digits, split: train, samples: 300 }";
  config.replace(config.find(data), data.size(), "{ type: csv, path: absent.csv, label: y }");
  const spec::ModelInput digits{{spec::Inputs::images, spec::Targets::classes}, {1, 28, 28}, 10};
  for (const auto kind : {spec::JobKind::check, spec::JobKind::script}) {
    spec::Job job{.kind = kind, .weights = trained / "checkpoints/last.safetensors"};
    INFO(spec::name_of(kind));
    TempFolder folder;
    std::ofstream(folder / spec::kJobFile) << spec::dump_job(job);
    CHECK(run_engine(folder, config, 0, spec::name_of(kind)).code == 9);
    job.model_input = digits;
    std::ofstream(folder / spec::kJobFile) << spec::dump_job(job);
    CHECK(run_engine(folder, config, 0, spec::name_of(kind)).code == 0);
    const bool checks = kind == spec::JobKind::check;
    CHECK(std::filesystem::exists(folder / (checks ? spec::kProblemsFile : spec::kScriptFile)));
  }
}

TEST_CASE("evaluate: weights of another shape are an error, also in the last layer") {
  TempFolder trained;
  REQUIRE(run_engine(trained, kSmall).code == 0);
  TempFolder folder;
  std::ofstream(folder / spec::kJobFile)
      << spec::dump_job({spec::JobKind::evaluate, "val", trained / "checkpoints/last.safetensors"});
  std::string config = kSmall;
  config.replace(config.find("[16]"), 4, "[17]");
  const Ended unfit = run_engine(folder, config, 0, "evaluate");
  CHECK(unfit.code == 10);
  REQUIRE(unfit.find<events::Failed>() != nullptr);
  const std::string message = unfit.find<events::Failed>()->message;
  CHECK_THAT(message,
             Contains("fc1.weight has the shape 16x784 in the file and 17x784 in the model"));
  CHECK_THAT(message,
             Contains("fc2.weight has the shape 10x16 in the file and 10x17 in the model"));
  CHECK(message.find("weights.strict") == std::string::npos);
}
