#include "study/folder/run_folder.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/store.hpp"
#include "report/record/run_files.hpp"
#include "spec/experiment/task.hpp"
#include "study/resume/resume.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>

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

/// Checks the newest checkpoint, or the one that `best` points to, because a resumed run uses that
/// one. An unreadable manifest counts as resumable, so that the damage is reported on resume.
bool is_resumable(const fs::path& run_dir, RunNeeds needs) {
  if (!has_checkpoint(run_dir)) return false;
  const checkpoint::Store store(store_of(run_dir));
  const auto best = store.pointed(checkpoint::Link::best);
  if (needs == RunNeeds::resumable_best && !best) return false;
  for (const checkpoint::StoredCheckpoint& found : store.list()) {
    const bool is_used = needs == RunNeeds::resumable_best ? found.path == *best : found.committed;
    if (is_used) return !found.manifest || !has_weights_only(*found.manifest);
  }
  return true;
}

constexpr int kNameAttempts = 1000;  // two successive names differ by at most 16 us

// mkdir is exclusive, so two runs that start at the same moment cannot both succeed.
bool make_exclusively(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0755) == 0) return true;
  ENSURE(resource, errno == EEXIST,
         "cannot create the run folder {}: {}\nhint: choose a writable folder with --out",
         folder.string(), std::strerror(errno));
  return false;
}

// The link is a convenience for people, so a failure does not end the run. rename() replaces it, so
// readers always find it.
void point_latest_at(const fs::path& folder) {
  const fs::path temporary = folder.parent_path() / fmt::format(".latest.{}", ::getpid());
  std::error_code failure;
  fs::remove(temporary, failure);
  fs::create_directory_symlink(folder.filename(), temporary, failure);
  if (!failure) fs::rename(temporary, folder.parent_path() / "latest", failure);
  if (failure) fs::remove(temporary, failure);
}

bool has_only_lock(const fs::path& folder) {
  return std::ranges::all_of(fs::directory_iterator(folder), [](const auto& entry) {
    return entry.path().filename() == FolderLock::kFileName;
  });
}

RunFolder use_fixed(const FolderRequest& request) {
  make_folder(*request.fixed);
  const fs::path folder = real_folder(*request.fixed);
  RunFolder made{folder, FolderLock(folder, request.if_locked)};
  ENSURE(config, request.if_used == IfUsed::resume || has_only_lock(folder),
         "the run folder {} is not empty\nhint: resume its run with --resume auto, choose another "
         "--run-dir, or remove the folder",
         printable(folder.string()));
  return made;
}

std::vector<fs::path> runs_in(const fs::path& folder) {
  std::vector<fs::path> runs = newest_first(folder);
  std::erase_if(runs, [](const fs::path& run) { return !is_run_folder(run); });
  return runs;
}

/// Returns the runs of all experiments below `root`, newest first. The runs of one experiment keep
/// their order, and the times in the names order different experiments.
std::vector<fs::path> all_runs(const fs::path& root) {
  std::vector<fs::path> all;
  for (const fs::path& experiment : newest_first(root)) {
    std::size_t at = 0;
    for (const fs::path& run : runs_in(experiment)) {
      while (at < all.size() && all[at].filename() >= run.filename()) ++at;
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(at++), run);
    }
  }
  return all;
}

RunSearch first_with(const std::vector<fs::path>& runs, RunNeeds needs) {
  RunSearch search;
  for (const fs::path& run : runs) {
    if (meets(run, needs)) {
      search.run = run;
      break;
    }
    search.skipped.push_back(run);
  }
  return search;
}

std::optional<NamedRun> first_or_newest(const std::vector<fs::path>& runs, RunNeeds needs) {
  if (runs.empty()) return std::nullopt;
  RunSearch search = first_with(runs, needs);
  if (!search.run) return NamedRun{runs.front(), {}};
  return NamedRun{*search.run, std::move(search.skipped)};
}

constexpr std::string_view kPattern = "trainctl-XXXXXX";

bool is_scratch_folder(const fs::path& path) {
  constexpr std::size_t kRandom = 6;
  const std::string name = path.filename().string();
  struct stat info {};
  return name.size() == kPattern.size() &&
         name.starts_with(kPattern.substr(0, kPattern.size() - kRandom)) &&
         ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

void remove_stale_scratch(const fs::path& parent) {
  std::vector<fs::path> left;
  std::error_code failure;
  fs::directory_iterator entry(parent, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    if (!is_scratch_folder(entry->path())) continue;
    const auto holder = lock_holder(entry->path());
    if (holder && why_exited(*holder, this_process())) left.push_back(entry->path());
  }
  for (const fs::path& folder : left) fs::remove_all(folder, failure);
}

}  // namespace

Json read_object(const fs::path& file) {
  constexpr std::uint64_t kMostBytes = 64 << 20;
  if (!is_file(file)) return nullptr;
  Json read = Json::parse(read_file(file, kMostBytes, ReadFailure::resource), nullptr,
                          /*allow_exceptions=*/false);
  return read.is_object() ? std::move(read) : Json();
}

Json object_if_readable(const fs::path& file) {
  try {
    return read_object(file);
  } catch (const Error&) {
    return nullptr;
  }
}

bool meets(const fs::path& run_dir, RunNeeds needs) {
  if (needs == RunNeeds::nothing) return true;
  if (!is_training(run_dir)) return false;
  switch (needs) {
    case RunNeeds::weights:
      return has_entry(store_of(run_dir), [](const fs::path& path) {
        return is_committed(path) || path.extension() == ".safetensors";
      });
    case RunNeeds::best_weights: return weights_named(run_dir, "best").has_value();
    case RunNeeds::last_weights: return weights_named(run_dir, "last").has_value();
    case RunNeeds::checkpoint: return has_entry(store_of(run_dir), is_committed);
    case RunNeeds::resumable:
    case RunNeeds::resumable_best: return is_resumable(run_dir, needs) || is_in_use(run_dir);
    case RunNeeds::success:
      return report::member(object_if_readable(run_dir / "result.json"), "exit_code") == 0;
    case RunNeeds::nothing: break;
  }
  return true;
}

std::string unmet_text(RunNeeds needs) {
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
  return is_file(folder / "config.resolved.yaml") || has_checkpoint(folder);
}

bool has_checkpoint(const fs::path& run_dir) {
  return has_entry(store_of(run_dir), [](const fs::path& path) {
    return path.filename().string().starts_with(checkpoint::kQuarantinePrefix) ||
           is_committed(path);
  });
}

std::optional<fs::path> weights_named(const fs::path& run_dir, const std::string& name) {
  const fs::path folder = store_of(run_dir);
  const fs::path file = folder / (name + ".safetensors");
  if (is_file(file)) return file;
  if (!is_folder(folder)) return std::nullopt;
  return checkpoint::Store(folder).pointed(name == "best" ? checkpoint::Link::best
                                                          : checkpoint::Link::last);
}

std::string task_damage(const fs::path& run_dir) {
  try {
    (void)spec::read_task(run_dir);
    return "";
  } catch (const Error& error) {
    return error.message();  // without the name of the file
  }
}

bool is_training(const fs::path& run_dir) {
  try {
    return spec::read_task(run_dir).kind == spec::TaskKind::train;
  } catch (const Error&) {
    return has_checkpoint(run_dir);
  }
}

std::string folder_name(const std::string& name) {
  std::string safe;
  for (const char c : name.substr(0, 100)) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    safe += plain ? c : '-';
  }
  const bool only_dots = safe.find_first_not_of('.') == std::string::npos;
  return only_dots ? "experiment" : safe;
}

fs::path real_folder(const fs::path& folder) {
  std::error_code failure;
  fs::path real = fs::weakly_canonical(folder, failure);
  // The second call resolves a link that only appears after "none/../link" became "link".
  if (!failure) real = fs::weakly_canonical(real, failure);
  if (failure) real = folder.lexically_normal();
  real = fs::absolute(real);
  return real.has_filename() || !real.has_relative_path() ? real : real.parent_path();
}

std::vector<fs::path> newest_first(const fs::path& parent) {
  std::vector<fs::path> folders;
  std::error_code failure;
  for (fs::directory_iterator at(parent, failure), end; !failure && at != end;
       at.increment(failure)) {
    std::error_code ignored;
    if (at->is_directory(ignored) && !at->is_symlink(ignored)) folders.push_back(at->path());
  }
  std::ranges::sort(folders, std::greater());
  const auto latest = std::ranges::find_if(folders, [&](const fs::path& folder) {
    return fs::equivalent(folder, parent / "latest", failure) && !failure;
  });
  if (latest != folders.end()) std::rotate(folders.begin(), latest, latest + 1);
  return folders;
}

std::optional<fs::path> newest_folder(const FolderRequest& request) {
  const auto all = newest_first(fs::absolute(request.root) / folder_name(request.name));
  return all.empty() ? std::nullopt : std::optional(real_folder(all.front()));
}

RunFolder make_run_folder(const FolderRequest& request) {
  if (request.fixed) return use_fixed(request);
  const fs::path parent = fs::absolute(request.root) / folder_name(request.name);
  make_folder(parent);
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    const fs::path folder = parent / utc_stamp();
    if (make_exclusively(folder)) {
      point_latest_at(folder);
      return {folder, FolderLock(folder)};
    }
  }
  throw Error(ErrorKind::resource,
              fmt::format("cannot find an unused run folder name in {}", parent.string()));
}

RunSearch newest_run(const fs::path& root, const std::string& name, RunNeeds needs) {
  return first_with(runs_in(fs::absolute(root) / folder_name(name)), needs);
}

std::optional<NamedRun> lookup_run(const std::string& word, const fs::path& root, RunNeeds needs) {
  if (word.empty()) return std::nullopt;
  if (is_run_folder(word)) return NamedRun{word, {}};
  std::optional<NamedRun> found;
  if (word.find('/') == std::string::npos)
    found = first_or_newest(word == "latest" ? all_runs(root) : runs_in(root / word), needs);
  return found ? found : first_or_newest(runs_in(word), needs);
}

fs::path find_run(const std::string& word, const fs::path& root) {
  const auto found = lookup_run(word, root);
  ENSURE(config, found.has_value(),
         "cannot find the run '{}': it is neither a run folder (with config.resolved.yaml) nor an "
         "experiment with runs in {}\nhint: name a run folder, or the parent folder with --out",
         printable(word), printable(root.string()));
  return found->folder;
}

ScratchFolder::ScratchFolder(const fs::path& parent) {
  remove_stale_scratch(parent);
  std::string name = (fs::absolute(parent) / kPattern).string();
  const char* const made = ::mkdtemp(name.data());
  ENSURE(resource, made != nullptr, "cannot create a folder in {}: {}", printable(parent.string()),
         std::strerror(errno));
  path_ = made;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(path_, ignored);
}

fs::path temporary_folder() {
  std::error_code failure;
  fs::path folder = fs::temp_directory_path(failure);
  const char* const named = std::getenv("TMPDIR");
  ENSURE(resource, !failure,
         "cannot find a folder for temporary files{}: {}\nhint: set TMPDIR to an existing folder",
         named == nullptr ? "" : fmt::format(" (TMPDIR is '{}')", printable(named)),
         failure.message());
  return folder;
}

}  // namespace trainctl::study
