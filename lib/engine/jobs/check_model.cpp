#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "engine/jobs/jobs.hpp"
#include "engine/setup/run_components.hpp"
#include "stages/optimizer/grouped.hpp"
#include "train/state/weights.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace trainctl::engine {
namespace {

/// Returns the tensors of the weights file, which the command-line program read from the header.
std::vector<weights::Entry> offered_in(const std::filesystem::path& run_dir) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
  const Json list =
      Json::parse(read_file(run_dir / spec::kOfferedFile, kMostBytes, ReadFailure::resource));
  std::vector<weights::Entry> entries;
  for (const Json& one : list) {
    entries.push_back({one.at("name").get<std::string>(), one.at("dtype").get<std::string>(),
                       one.at("shape").get<std::vector<std::int64_t>>()});
  }
  return entries;
}

void check_weights(const spec::Weights& weights, const stage::Model& model, std::int64_t outputs,
                   const std::filesystem::path& run_dir) {
  train::match_weights(model, offered_in(run_dir),
                       {.strict = weights.strict,
                        .renaming = {.prefix = weights.prefix, .key_map = weights.key_map},
                        .last_layer = {},
                        .outputs = outputs});
}

}  // namespace

int check_model(const JobSetup& setup) {
  const std::filesystem::path run_dir = setup.request.run_dir;
  const spec::Experiment& experiment = setup.experiment;
  const stage::ModelContext shape = model_context(experiment, spec::read_job(run_dir));
  const stage::Catalog catalog = catalog_in_use();
  Json problems = Json::array();
  const auto collect = [&problems](const char* key, const auto& check) {
    try {
      check();
    } catch (const Error& error) {
      problems.push_back(
          {{"key", key}, {"kind", static_cast<int>(error.kind())}, {"message", error.what()}});
    }
  };
  collect("model", [&] {
    const auto model = catalog.models.build(experiment.model, shape);
    if (experiment.weights) {
      collect("weights",
              [&] { check_weights(*experiment.weights, *model, shape.outputs, run_dir); });
    }
    collect("freeze", [&] { train::freeze(*model, experiment.freeze); });
    collect("unfreeze_at", [&] { (void)train::unfreeze_later(*model, experiment.unfreeze_at); });
    collect("optimizer", [&] {
      (void)stages::build_optimizer(catalog, experiment.optimizer,
                                    {train::trained_parameters(*model)});
    });
  });
  write_atomically(run_dir / spec::kProblemsFile, to_line(problems));
  setup.emit(events::Finished{0, 0, {}, {}, "checked"});
  return 0;
}

}  // namespace trainctl::engine
