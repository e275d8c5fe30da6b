#include "study/run/step_replay.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/container.hpp"
#include "config/schema/dump.hpp"
#include "study/resume/config_changes.hpp"

#include <fmt/format.h>

namespace trainctl::study {
namespace {

/// Returns the file of the lowest rank.
std::optional<fs::path> part_in(const fs::path& folder) {
  for (const fs::path& entry : paths_in(folder)) {
    const std::string name = entry.filename().string();
    if (name.starts_with("rank_") && entry.extension() == ".part") return entry;
  }
  return std::nullopt;
}

/// Returns the dump of the last step that has one.
std::optional<fs::path> newest_part_of_attempt(const fs::path& folder) {
  const std::vector<fs::path> dumps = paths_in(folder / "diverged");
  for (auto dump = dumps.rbegin(); dump != dumps.rend(); ++dump) {
    if (const auto part = part_in(*dump)) return part;
  }
  return std::nullopt;
}

/// Returns the newest dump of the newest attempt that has one: the run folder itself comes first,
/// then attempt-N below it with the highest N.
std::optional<fs::path> newest_part(const fs::path& run_folder) {
  constexpr std::string_view kPrefix = "attempt-";
  std::vector<fs::path> attempts;
  for (const fs::path& entry : paths_in(run_folder)) {
    if (entry.filename().string().starts_with(kPrefix)) attempts.push_back(entry);
  }
  // Sorts attempt-10 after attempt-9.
  std::ranges::stable_sort(attempts, {},
                           [](const fs::path& entry) { return entry.filename().string().size(); });
  attempts.push_back(run_folder);
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt) {
    if (const auto part = newest_part_of_attempt(*attempt)) return part;
  }
  return std::nullopt;
}

fs::path dump_at(const std::string& path) {
  ENSURE(config, path_exists(path),
         "--replay-step: {} does not exist\nhint: name a folder such as RUN/diverged/step=000123, "
         "which a diverged run writes",
         printable(path));
  if (!is_folder(path)) return fs::absolute(path);
  auto part = part_in(path);
  if (!part) part = newest_part(path);
  ENSURE(config, part.has_value(),
         "--replay-step: the folder {} must contain a file such as rank_0.part", printable(path));
  return fs::absolute(*part);
}

std::string recorded_config(const fs::path& dump) {
  const container::File file(dump);
  const Json& meta = file.meta();
  const bool has_config = meta.is_object() && meta.contains("step") && meta["step"].is_object() &&
                          meta["step"].contains("config") && meta["step"]["config"].is_string();
  ENSURE(checkpoint, has_config, "{} is not a step of a diverged run", printable(dump.string()));
  return meta["step"]["config"].get<std::string>();
}

using Leaves = std::map<std::string, std::string>;

Leaves leaves_of(const spec::Experiment& experiment) {
  return flat_values(config::write_options(spec::experiment_schema(), &experiment));
}

/// Returns the differences, such as "optimizer.lr: 0.1, was 1e+38", including values that exist on
/// one side only.
std::vector<std::string> differences(const Leaves& then, const Leaves& now) {
  std::vector<std::string> found;
  for (const auto& [key, value] : now) {
    const auto before = then.find(key);
    if (before == then.end()) {
      found.push_back(fmt::format("{}: {}, was absent", key, value));
    } else if (before->second != value) {
      found.push_back(fmt::format("{}: {}, was {}", key, value, before->second));
    }
  }
  for (const auto& [key, value] : then) {
    if (!now.contains(key)) found.push_back(fmt::format("{}: absent, was {}", key, value));
  }
  return found;
}

/// Returns nullopt if this version cannot read the config.
std::optional<Leaves> recorded_leaves(const std::string& text) {
  config::Diagnostics problems;
  try {
    const spec::Loaded loaded = spec::load_experiment_text("the dump's config", text, {}, problems);
    return leaves_of(loaded.experiment);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

ReplayPlan plan_replay(const Invocation& invocation, const std::string& path,
                       config::Diagnostics& diagnostics) {
  const fs::path dump = dump_at(path);
  // This must precede the experiment, because the plug-ins of the file that is loaded last are in
  // use.
  const std::string recorded = recorded_config(dump);
  const std::optional<Leaves> then = recorded_leaves(recorded);
  const std::string file = invocation.config_file.string();
  ReplayPlan plan{.loaded = file.empty()
                                ? spec::load_experiment_text(dump.string(), recorded,
                                                             invocation.overrides, diagnostics)
                                : spec::load_experiment(file, invocation.overrides, diagnostics),
                  .replay = {.dump = dump.string()}};
  log_files(plan.loaded);
  if (then) plan.replay.changed = differences(*then, leaves_of(plan.loaded.experiment));
  if (!then) plan.replay.changed.emplace_back("this version cannot read the saved config");
  return plan;
}

RunRequest replay_request(const Invocation& invocation, ReplayPlan plan) {
  std::vector<std::string> overrides{"++trainer.devices=1", "++trainer.on_divergence=[]",
                                     "++profiler=~"};
  if (plan.loaded.experiment.loader.batch_size.automatic)
    overrides.emplace_back("++loader.batch_size=1");
  config::Diagnostics problems;  // the plan has already reported its warnings
  spec::Loaded loaded = spec::overridden(std::move(plan.loaded), overrides, problems);
  problems.throw_if_errors();
  RunRequest request = make_request(invocation, std::move(loaded));
  request.job.kind = spec::JobKind::replay;
  request.job.replay = plan.replay.dump;
  return request;
}

}  // namespace trainctl::study
