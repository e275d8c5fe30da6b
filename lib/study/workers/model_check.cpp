#include "study/workers/model_check.hpp"

#include "base/json.hpp"
#include "config/tree/tree_path.hpp"
#include "launch/process/signals.hpp"
#include "spec/experiment/task.hpp"
#include "study/folder/scratch_folder.hpp"
#include "study/workers/model_task.hpp"
#include "weights/import.hpp"

#include <algorithm>
#include <array>

namespace trainctl::study {
namespace {

/// Keys that name parameters by patterns.
constexpr std::array kPatternKeys{"optimizer.no_weight_decay_on", "optimizer.groups",
                                  "optimizer.adamw_on"};

Json json_of(const std::vector<weights::Entry>& entries) {
  Json list = Json::array();
  for (const weights::Entry& entry : entries)
    list.push_back({{"name", entry.name}, {"dtype", entry.dtype}, {"shape", entry.shape}});
  return list;
}

std::vector<ModelProblem> problems_in(const fs::path& file) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  std::vector<ModelProblem> problems;
  for (const Json& one : Json::parse(read_file(file, kMostBytes, ReadFailure::resource))) {
    problems.push_back({one.at("key").get<std::string>(),
                        static_cast<ErrorKind>(one.at("kind").get<int>()),
                        one.at("message").get<std::string>()});
  }
  return problems;
}

}  // namespace

bool names_parameters(const spec::Loaded& loaded) {
  const spec::Experiment& experiment = loaded.experiment;
  return experiment.weights || !experiment.freeze.empty() ||
         std::ranges::any_of(kPatternKeys, [&](const char* key) {
           return config::find_path(loaded.tree, key) != nullptr;
         });
}

std::vector<ModelProblem> check_model(const spec::Loaded& loaded,
                                      const std::optional<spec::ModelInput>& input,
                                      const fs::path& executable) {
  const launch::SignalGuard guard;  // until the scratch folder is gone
  const ScratchFolder folder(temporary_folder());
  if (const auto& weights = loaded.experiment.weights) {
    const std::vector<weights::Entry> entries =
        weights::entries_of(weights->path, {.section = weights->section});
    write_atomically(folder.path() / spec::kOfferedFile, to_line(json_of(entries)));
  }
  run_model_task({.loaded = loaded,
                  .executable = executable,
                  .task = {.kind = spec::TaskKind::check, .model_input = input},
                  .purpose = "builds the model",
                  .hint = "take a smaller model",
                  .device = TaskDevice::cpu},
                 folder.path(), [](const events::Event&) {});
  return problems_in(folder.path() / spec::kProblemsFile);
}

}  // namespace trainctl::study
