#include "study/folder/run_needs.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/store.hpp"
#include "spec/experiment/task.hpp"
#include "study/folder/folder_lock.hpp"
#include "study/resume/resume.hpp"

#include <functional>
#include <system_error>

namespace trainctl::study {
namespace {

fs::path store_of(const fs::path& run_dir) { return run_dir / "checkpoints"; }

bool has_entry(const fs::path& folder, const std::function<bool(const fs::path&)>& is_wanted) {
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    if (is_wanted(at->path())) return true;
  }
  return false;
}

bool is_committed(const fs::path& path) {
  return checkpoint::parse_folder_name(path.filename().string()) && checkpoint::is_committed(path);
}

bool is_moved_aside(const fs::path& path) {
  return path.filename().string().starts_with(checkpoint::kAsidePrefix);
}

bool has_committed(const fs::path& run_dir) { return has_entry(store_of(run_dir), is_committed); }

/// Weights without checkpoints, as a run may keep them: best.safetensors.
bool has_weights_file(const fs::path& run_dir) {
  return has_entry(store_of(run_dir),
                   [](const fs::path& path) { return path.extension() == ".safetensors"; });
}

/// The newest checkpoint decides, or the one that `best` leads to, since resuming takes that one. A
/// manifest that cannot be read counts: resuming reports the damage.
bool is_resumable(const fs::path& run_dir, RunNeeds needs) {
  if (!has_checkpoint(run_dir)) return false;
  const checkpoint::Store store(store_of(run_dir));
  const auto best = store.pointed(checkpoint::Link::best);
  if (needs == RunNeeds::resumable_best && !best) return false;
  for (const checkpoint::Found& found : store.list()) {
    const bool is_taken = needs == RunNeeds::resumable_best ? found.path == *best : found.committed;
    if (is_taken) return !found.manifest || !has_weights_only(*found.manifest);
  }
  return true;
}

bool has_ended_well(const fs::path& run_dir) {
  constexpr std::uint64_t kMostBytes = 64 << 20;
  try {
    const std::string text = read_file(run_dir / "result.json", kMostBytes, ReadFailure::resource);
    const Json result = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    return result.is_object() && result.value("exit_code", Json()) == 0;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool meets(const fs::path& run_dir, RunNeeds needs) {
  if (needs == RunNeeds::nothing) return true;
  if (!is_training(run_dir)) return false;
  switch (needs) {
    case RunNeeds::weights: return has_committed(run_dir) || has_weights_file(run_dir);
    case RunNeeds::best_weights: return weights_named(run_dir, "best").has_value();
    case RunNeeds::last_weights: return weights_named(run_dir, "last").has_value();
    case RunNeeds::checkpoint: return has_committed(run_dir);
    case RunNeeds::resumable:
    case RunNeeds::resumable_best: return is_resumable(run_dir, needs) || is_in_use(run_dir);
    case RunNeeds::success: return has_ended_well(run_dir);
    case RunNeeds::nothing: break;
  }
  return true;
}

std::string lacking(RunNeeds needs) {
  switch (needs) {
    case RunNeeds::best_weights:
    case RunNeeds::resumable_best: return "without a checkpoint 'best'";
    case RunNeeds::last_weights: return "without a checkpoint 'last'";
    case RunNeeds::resumable: return "without a checkpoint to resume from";
    case RunNeeds::success: return "without exit code 0";
    case RunNeeds::nothing:
    case RunNeeds::weights:
    case RunNeeds::checkpoint: break;
  }
  return "without a checkpoint";
}

bool is_run_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.resolved.yaml", ignored) || has_checkpoint(folder);
}

bool has_checkpoint(const fs::path& run_dir) {
  return has_entry(store_of(run_dir),
                   [](const fs::path& path) { return is_moved_aside(path) || is_committed(path); });
}

std::optional<fs::path> weights_named(const fs::path& run_dir, const std::string& name) {
  const fs::path folder = store_of(run_dir);
  const fs::path file = folder / (name + ".safetensors");
  std::error_code ignored;
  if (fs::is_regular_file(file, ignored)) return file;
  if (!fs::is_directory(folder, ignored)) return std::nullopt;
  return checkpoint::Store(folder).pointed(name == "best" ? checkpoint::Link::best
                                                          : checkpoint::Link::last);
}

std::string task_damage(const fs::path& run_dir) {
  try {
    (void)spec::read_task(run_dir);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

bool is_training(const fs::path& run_dir) {
  try {
    return spec::read_task(run_dir).kind == spec::TaskKind::train;
  } catch (const Error&) {
    return has_checkpoint(run_dir);
  }
}

}  // namespace trainctl::study
