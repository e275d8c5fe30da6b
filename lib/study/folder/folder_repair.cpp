#include "study/folder/folder_repair.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/store.hpp"
#include "config/tree/yaml.hpp"
#include "report/record/run_files.hpp"
#include "spec/experiment/task.hpp"
#include "study/folder/folder_lock.hpp"
#include "study/folder/run_folder.hpp"

#include <unistd.h>

#include <array>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>

namespace trainctl::study {
namespace {

constexpr std::uint64_t kMostHistoryBytes = std::uint64_t{1} << 32;
constexpr std::uint64_t kMostDocument = 64 << 20;
constexpr const char* kResolved = "config.resolved.yaml";

std::string json_damage(const fs::path& file) {
  const Json read = report::parse_bounded(read_file(file, kMostDocument, ReadFailure::config));
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

std::string task_file_damage(const fs::path& file) { return task_damage(file.parent_path()); }

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
  constexpr std::array kFiles{File{spec::kTaskFile, task_file_damage},
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
  throw Error(ErrorKind::config,
              fmt::format("cannot use the run folder {0}: its {1} is {2}, and {3}\n"
                          "hint: {4}name the experiment file as CONFIG, with --run-dir {0}",
                          printable(run_dir.string()), kResolved,
                          why.empty() ? "missing" : fmt::format("damaged ({})", one_line(why)),
                          in_use ? "another process uses the folder" : "no checkpoint has a copy",
                          in_use ? "wait until that process has exited, or " : ""));
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
