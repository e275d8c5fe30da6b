#include "study/folder/run_folder.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/store.hpp"
#include "config/tree/yaml.hpp"
#include "report/record/run_files.hpp"
#include "spec/experiment/job.hpp"
#include "study/resume/resume.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace trainctl::study {
namespace {

fs::path store_of(const fs::path& run_dir) { return run_dir / "checkpoints"; }

bool has_entry(const fs::path& folder, const std::function<bool(const fs::path&)>& is_wanted) {
  return std::ranges::any_of(paths_in(folder), is_wanted);
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
    std::vector<fs::path> merged;
    std::ranges::merge(all, runs_in(experiment), std::back_inserter(merged), std::greater(),
                       &fs::path::filename, &fs::path::filename);
    all = std::move(merged);
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
  for (const fs::path& folder : paths_in(parent)) {
    const auto holder = is_scratch_folder(folder) ? lock_holder(folder) : std::nullopt;
    std::error_code ignored;
    if (holder && why_exited(*holder, this_process())) fs::remove_all(folder, ignored);
  }
}

constexpr std::uint64_t kMostHistoryBytes = std::uint64_t{1} << 32;
constexpr std::uint64_t kMostDocument = 64 << 20;
constexpr const char* kResolved = "config.resolved.yaml";

std::string json_damage(const fs::path& file) {
  const Json read = parse_json(read_file(file, kMostDocument, ReadFailure::config));
  return read.is_object() ? "" : "it is not a JSON object";
}

std::string yaml_damage(const fs::path& file) {
  const std::string text = read_file(file, config::kMaxFileBytes, ReadFailure::config);
  config::Diagnostics problems;
  const config::Node tree =
      config::parse_yaml(config::make_source(kResolved, text), text, problems);
  const bool is_map = tree.type == config::Node::Type::map && !tree.entries.empty();
  return problems.error_count() > 0 || tree.broken || !is_map ? "it is not a YAML map" : "";
}

std::string job_file_damage(const fs::path& file) { return job_damage(file.parent_path()); }

std::string damage_of(const fs::path& file,
                      const std::function<std::string(const fs::path&)>& check) {
  if (!is_file(file)) return "";
  try {
    return check(file);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::resource) throw;
    return std::string(without_hint(error.what()));
  }
}

/// Renames the file to "corrupt-task.json", with a number if that name exists.
fs::path rename_corrupt(const fs::path& file) {
  const std::string name = "corrupt-" + file.filename().string();
  fs::path free = file.parent_path() / name;
  std::error_code failure;
  for (int number = 2; fs::exists(free, failure); ++number)
    free = file.parent_path() / fmt::format("{}-{}", name, number);
  fs::rename(file, free, failure);
  ENSURE(resource, !failure, "cannot rename {} to {}: {}", printable(file.string()),
         free.filename().string(), failure.message());
  return free;
}

std::string rename_damaged(const fs::path& file, const std::string& why) {
  const fs::path target = rename_corrupt(file);
  return fmt::format("{} is damaged ({}): moved to {} and written again", printable(file.string()),
                     one_line(why), target.filename().string());
}

std::optional<std::string> saved_config(const fs::path& run_dir) {
  if (!is_folder(run_dir / "checkpoints")) return std::nullopt;
  for (const checkpoint::StoredCheckpoint& found :
       checkpoint::Store(run_dir / "checkpoints").list()) {
    if (!found.manifest) continue;
    const auto config = found.manifest->facts.find("config");
    if (config != found.manifest->facts.end()) return config->second;
  }
  return std::nullopt;
}

struct DamagedFile {
  fs::path path;
  std::string why;
};

std::vector<DamagedFile> find_damaged(const fs::path& run_dir) {
  struct File {
    const char* name;
    std::string (*check)(const fs::path&);
  };
  constexpr std::array kFiles{File{spec::kJobFile, job_file_damage},
                              File{"result.json", json_damage}, File{"manifest.json", json_damage},
                              File{kResolved, yaml_damage}};
  std::vector<DamagedFile> damaged;
  for (const File& each : kFiles) {
    std::string why = damage_of(run_dir / each.name, each.check);
    if (!why.empty()) damaged.push_back({run_dir / each.name, std::move(why)});
  }
  return damaged;
}

bool has_pid_suffix(std::string_view name, std::string_view mark) {
  const std::size_t at = name.rfind(mark);
  if (!name.starts_with('.') || at == std::string_view::npos || at == 0) return false;
  const std::string_view pid = name.substr(at + mark.size());
  const bool is_number = !pid.empty() && pid.find_first_not_of("0123456789") == std::string::npos;
  return is_number && pid != std::to_string(::getpid());
}

// write_atomically and ReservedFile give their unfinished files these names.
bool is_temporary(std::string_view name) {
  return has_pid_suffix(name, ".tmp.") || has_pid_suffix(name, ".reserved.");
}

void remove_temporaries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    if (is_temporary(entry->path().filename().string())) found.push_back(entry->path());
  }
  for (const fs::path& path : found) ::unlink(path.c_str());
}

}  // namespace

Json read_object(const fs::path& file) {
  constexpr std::uint64_t kMostBytes = 64 << 20;
  if (!is_file(file)) return nullptr;
  Json read = parse_json(read_file(file, kMostBytes, ReadFailure::resource));
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

std::string job_damage(const fs::path& run_dir) {
  try {
    (void)spec::read_job(run_dir);
    return "";
  } catch (const Error& error) {
    return error.message();  // without the name of the file
  }
}

bool is_training(const fs::path& run_dir) {
  try {
    return spec::read_job(run_dir).kind == spec::JobKind::train;
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
  std::vector<fs::path> folders = paths_in(parent);
  std::error_code failure;
  std::erase_if(folders, [&](const fs::path& path) {
    return !is_folder(path) || fs::is_symlink(path, failure);
  });
  std::ranges::reverse(folders);
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
  THROW(resource, "cannot find an unused run folder name in {}", parent.string());
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

std::vector<std::string> damaged_files(const fs::path& run_dir) {
  std::vector<std::string> notes;
  for (const DamagedFile& file : find_damaged(run_dir))
    notes.push_back(
        fmt::format("{} is damaged ({})", printable(file.path.string()), one_line(file.why)));
  return notes;
}

std::vector<std::string> rename_damaged_files(const fs::path& run_dir) {
  std::vector<std::string> notes;
  for (const DamagedFile& file : find_damaged(run_dir))
    notes.push_back(rename_damaged(file.path, file.why));
  return notes;
}

std::optional<std::string> resolved_config_of(const fs::path& run_dir) {
  const fs::path file = run_dir / kResolved;
  if (is_file(file) && damage_of(file, yaml_damage).empty())
    return read_file(file, config::kMaxFileBytes, ReadFailure::config);
  return saved_config(run_dir);
}

std::string restore_if_possible(const fs::path& run_dir) {
  const fs::path file = run_dir / kResolved;
  const std::string why = damage_of(file, yaml_damage);
  if ((is_file(file) && why.empty()) || is_in_use(run_dir)) return "";
  const std::optional<std::string> config = saved_config(run_dir);
  if (!config) return "";
  std::string note = why.empty()
                         ? fmt::format("{} is missing: written again", printable(file.string()))
                         : rename_damaged(file, why);
  write_atomically(file, *config);
  return note + " from the newest checkpoint";
}

std::string restore_resolved_config(const fs::path& run_dir) {
  std::string note = restore_if_possible(run_dir);
  const fs::path file = run_dir / kResolved;
  const std::string why = damage_of(file, yaml_damage);
  if (!note.empty() || (is_file(file) && why.empty())) return note;
  const bool in_use = is_in_use(run_dir);
  THROW(config,
        "cannot use the run folder {0}: its {1} is {2}, and {3}\n"
        "hint: {4}name the experiment file as CONFIG, with --run-dir {0}",
        printable(run_dir.string()), kResolved,
        why.empty() ? "missing" : fmt::format("damaged ({})", one_line(why)),
        in_use ? "another process uses the folder" : "no checkpoint has a copy",
        in_use ? "wait until that process has exited, or " : "");
}

std::vector<std::string> damaged_history(const fs::path& run_dir) {
  std::vector<std::string> notes;
  const auto text_of = [&](const std::string& name) {
    return is_file(run_dir / name)
               ? read_file(run_dir / name, kMostHistoryBytes, ReadFailure::resource)
               : std::string();
  };
  (void)report::steps_of(text_of("metrics.jsonl"), notes);
  for (const std::string& name : report::names_in(run_dir, ".csv")) {
    std::string text = text_of(name);
    text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
    if (name == "epochs.csv" || name == "timing.csv") report::note_damage(name, text, notes);
  }
  return notes;
}

void remove_unfinished(const fs::path& run_dir) {
  remove_temporaries(run_dir);
  try {
    checkpoint::Store(run_dir / "checkpoints").remove_unfinished();
  } catch (const Error&) {  // the next save tries again
  }
}

}  // namespace trainctl::study
