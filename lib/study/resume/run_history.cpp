#include "study/resume/run_history.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "checkpoint/store.hpp"
#include "report/record/run_files.hpp"
#include "study/folder/run_folder.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <system_error>

namespace trainctl::study {
namespace {

constexpr std::uint64_t kMostTableBytes = std::uint64_t{1} << 32;
constexpr std::array kRewritten{"config.yaml", "config.resolved.yaml", "manifest.json",
                                "result.json"};

using IsKept = std::function<bool(std::string_view line)>;

/// The epoch column counts from 1, so the rows of the first `epoch` epochs stay.
bool keeps_csv_row(std::string_view line, const ResumePoint& point) {
  const auto epoch = parse_number<std::int64_t>(line.substr(0, line.find(',')));
  return epoch && *epoch <= point.epoch;
}

/// The step is in the second column. Validations within an epoch are not in the rows of epochs.
bool keeps_validation(std::string_view line, const ResumePoint& point) {
  const std::vector<std::string> cells = split(line, ',');
  const auto step = cells.size() > 1 ? parse_number<std::int64_t>(cells[1]) : std::nullopt;
  return step && *step <= point.global_step;
}

bool keeps_json_line(std::string_view line, const ResumePoint& point) {
  const Json row = parse_json(line);
  const auto number = [&](const char* key) {
    return row.is_object() && row.contains(key) && row[key].is_number_integer()
               ? row[key].get<std::int64_t>()
               : std::numeric_limits<std::int64_t>::max();
  };
  if (row.is_object() && row.contains("type") && row["type"] == "epoch")
    return number("epoch") <= point.epoch;
  return number("step") <= point.global_step;
}

struct SplitLines {
  std::string kept;
  std::string moved;
};

/// `lines` has no header. A last line without a newline was truncated.
SplitLines split_lines(std::string_view lines, const IsKept& is_kept) {
  SplitLines result;
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    const bool is_complete = end != std::string_view::npos;
    const std::string_view line = lines.substr(0, is_complete ? end : lines.size());
    const bool keep = is_complete && is_kept(line);
    (keep ? result.kept : result.moved).append(line).push_back('\n');
    lines.remove_prefix(is_complete ? end + 1 : lines.size());
  }
  return result;
}

constexpr const char* kSuperseded = "superseded";
constexpr const char* kCheckpointFolder = "checkpoints";
/// The subfolder of superseded/N with the original files and the marker, until the run has resumed.
constexpr const char* kRollback = "rollback";
/// The marker file: the resumed checkpoint, then the checkpoints that move, one per line.
constexpr const char* kMarker = "checkpoints.txt";

using Moment = std::optional<checkpoint::Moment>;

void move_to(const fs::path& from, const fs::path& to) {
  std::error_code failure;
  fs::rename(from, to, failure);
  ENSURE(resource, !failure, "cannot move {} to {}: {}", printable(from.string()),
         printable(to.string()), failure.message());
}

/// Moves the files of earlier starts to superseded/N/ of the run folder, where N is the first free
/// number. The folder is created when the first file moves. Until commit_superseded() everything
/// can be restored.
class SupersededFolder {
 public:
  /// `from` is the checkpoint of this folder from which the run resumes; nullopt: none of its
  /// checkpoints is kept.
  SupersededFolder(fs::path run_dir, Moment from) : run_dir_(std::move(run_dir)), from_(from) {}

  [[nodiscard]] const std::optional<fs::path>& created() const { return created_; }

  fs::path folder() {
    if (created_) return *created_;
    const fs::path all = run_dir_ / kSuperseded;
    make_folder(all);
    std::error_code failure;
    for (int number = 1; !created_; ++number) {
      const fs::path free = all / std::to_string(number);
      if (fs::create_directory(free, failure)) created_ = free;
      ENSURE(resource, !failure, "cannot create {}: {}", printable(free.string()),
             failure.message());
    }
    make_folder(*created_ / kRollback);
    std::string marker = from_ ? checkpoint::folder_name(*from_) : std::string();
    for (const std::string& name : later_checkpoints()) marker += "\n" + name;
    write_atomically(*created_ / kRollback / kMarker, marker + "\n");
    sync_folder(*created_);
    return *created_;
  }

  /// Replaces the content of a file in the run folder. Keeps its modification time, which records
  /// when the run last wrote the file. Throws Error(resource).
  void rewrite(const fs::path& file, std::string_view text) {
    const fs::path kept = folder() / kRollback / file.filename();
    std::error_code unknown;
    const fs::file_time_type written_at = fs::last_write_time(file, unknown);
    std::error_code ignored;
    const auto write = [&](const fs::path& path, std::string_view bytes) {
      write_atomically(path, bytes);
      if (!unknown) fs::last_write_time(path, written_at, ignored);
    };
    write(kept, read_file(file, kMostTableBytes, ReadFailure::resource));
    write(file, text);
  }

  /// Moves every checkpoint that is newer than `from`, by step, then epoch. Throws Error(resource).
  void move_checkpoints() {
    const std::vector<std::string> names = later_checkpoints();
    if (names.empty()) return;
    const fs::path target = folder() / kCheckpointFolder;
    make_folder(target);
    for (const std::string& name : names)
      move_to(run_dir_ / kCheckpointFolder / name, target / name);
    sync_folder(target);
    sync_folder(*created_);
  }

 private:
  [[nodiscard]] std::vector<std::string> later_checkpoints() const {
    std::vector<std::string> names = checkpoint::file_names(run_dir_ / kCheckpointFolder);
    std::erase_if(names, [&](const std::string& name) {
      const Moment moment = checkpoint::parse_folder_name(name);
      return !moment || (from_ && *moment <= *from_);
    });
    return names;
  }

  fs::path run_dir_;
  Moment from_;
  std::optional<fs::path> created_;
};

/// Writes the moved rows first, so that a kill in between loses none.
void truncate_history(const fs::path& file, bool has_header, const IsKept& is_kept,
                      SupersededFolder& superseded) {
  if (!is_file(file)) return;
  const std::string text = read_file(file, kMostTableBytes, ReadFailure::resource);
  const std::size_t header_end = has_header ? text.find('\n') : 0;
  const std::size_t first =
      header_end == std::string::npos ? text.size() : header_end + (has_header ? 1 : 0);
  const SplitLines rows = split_lines(std::string_view(text).substr(first), is_kept);
  if (rows.moved.empty()) return;
  const std::string header = text.substr(0, first);
  write_atomically(superseded.folder() / file.filename(), header + rows.moved);
  superseded.rewrite(file, header + rows.kept);
}

void copy_rewritten(const fs::path& run_dir, SupersededFolder& superseded) {
  for (const char* name : kRewritten) {
    std::error_code failure;
    if (!fs::is_regular_file(run_dir / name, failure)) continue;
    fs::copy_file(run_dir / name, superseded.folder() / name, failure);
    ENSURE(resource, !failure, "cannot copy {} to {}: {}", name,
           printable(superseded.folder().string()), failure.message());
  }
}

std::vector<fs::path> uncommitted_in(const fs::path& run_dir) {
  std::vector<std::pair<int, fs::path>> found;
  for (const std::string& name : checkpoint::file_names(run_dir / kSuperseded)) {
    const auto number = parse_number<int>(name);
    const fs::path superseded = run_dir / kSuperseded / name;
    if (number && checkpoint::is_folder(superseded / kRollback))
      found.emplace_back(*number, superseded);
  }
  std::ranges::sort(found, std::greater());
  std::vector<fs::path> folders;
  for (auto& [number, superseded] : found) folders.push_back(std::move(superseded));
  return folders;
}

/// Removes the marker first: without it nothing is restored. The next start tries the rest again.
void commit(const fs::path& superseded) {
  std::error_code ignored;
  if (fs::remove(superseded / kRollback / kMarker, ignored); !ignored)
    fs::remove_all(superseded / kRollback, ignored);  // only copies are left
}

/// Uses only the checkpoints, because the process may have been killed before commit_superseded().
bool has_resumed(const fs::path& run_dir, const fs::path& superseded) {
  const std::vector<std::string> lines = split(
      read_file(superseded / kRollback / kMarker, kMostTableBytes, ReadFailure::resource), '\n');
  const Moment from = checkpoint::parse_folder_name(lines.front());
  const std::set<std::string> listed(lines.begin(), lines.end());
  const auto is_new = [&](const std::string& name) {
    const Moment moment = checkpoint::parse_folder_name(name);
    if (!moment || (from && *moment <= *from)) return false;
    const bool was_there = listed.contains(name);
    return checkpoint::is_committed(run_dir / kCheckpointFolder / name) &&
           (!was_there || checkpoint::is_folder(superseded / kCheckpointFolder / name));
  };
  return std::ranges::any_of(checkpoint::file_names(run_dir / kCheckpointFolder), is_new);
}

/// A checkpoint in the way belongs to a save that was not finished.
bool restore_checkpoints(const fs::path& run_dir, const fs::path& superseded) {
  bool any = false;
  for (const std::string& name : checkpoint::file_names(superseded / kCheckpointFolder)) {
    const fs::path place = run_dir / kCheckpointFolder / name;
    if (checkpoint::is_folder(place)) continue;
    move_to(superseded / kCheckpointFolder / name, place);
    any = true;
  }
  std::error_code ignored;
  fs::remove(superseded / kCheckpointFolder, ignored);  // succeeds only if it is empty
  if (!any) return false;
  sync_folder(run_dir / kCheckpointFolder);
  checkpoint::Store store(run_dir / kCheckpointFolder);
  for (const checkpoint::StoredCheckpoint& found : store.list()) {
    if (!found.manifest) continue;
    store.point(checkpoint::Link::last, found.path);
    break;
  }
  return true;
}

bool restore_files(const fs::path& run_dir, const fs::path& superseded) {
  bool any = false;
  for (const std::string& name : checkpoint::file_names(superseded / kRollback)) {
    if (name == kMarker || name.starts_with('.')) continue;
    move_to(superseded / kRollback / name, run_dir / name);
    std::error_code ignored;
    fs::remove(superseded / name, ignored);  // its rows are in the restored file
    any = true;
  }
  return any;
}

}  // namespace

std::optional<fs::path> supersede_history(const fs::path& run_dir, const ResumePoint& point) {
  SupersededFolder superseded(
      run_dir, point.of_this_run ? std::optional(checkpoint::Moment{point.global_step, point.epoch})
                                 : std::nullopt);
  for (const std::string& name : checkpoint::file_names(run_dir)) {
    const fs::path file = run_dir / name;
    if (file.extension() != ".csv" || !is_file(file)) continue;
    if (read_file(file, kMostTableBytes, ReadFailure::resource).starts_with("epoch,"))
      truncate_history(
          file, true,
          [&](std::string_view line) {
            return name == "validations.csv" ? keeps_validation(line, point)
                                             : keeps_csv_row(line, point);
          },
          superseded);
  }
  truncate_history(
      run_dir / "metrics.jsonl", false,
      [&](std::string_view line) { return keeps_json_line(line, point); }, superseded);
  superseded.move_checkpoints();
  copy_rewritten(run_dir, superseded);
  return superseded.created();
}

std::map<std::string, std::string> recorded_fingerprints(const fs::path& run_dir) {
  std::map<std::string, std::string> found;
  const Json manifest = read_object(run_dir / "manifest.json");
  const Json& splits = report::member(manifest, "data_fingerprints");
  if (!splits.is_object()) return found;
  for (const auto& [split, hex] : splits.items()) {
    if (hex.is_string()) found[split] = hex.get<std::string>();
  }
  return found;
}

std::map<std::string, std::string> recorded_fingerprints(const checkpoint::Manifest& manifest) {
  constexpr std::string_view kData = "data.";
  std::map<std::string, std::string> found;
  for (const auto& [name, value] : manifest.facts) {
    if (name.starts_with(kData)) found[name.substr(kData.size())] = value;
  }
  return found;
}

void expect_same_data(const std::map<std::string, std::string>& before,
                      const std::map<std::string, std::string>& now) {
  std::string lines;
  for (const auto& [split, hex] : before) {
    const auto found = now.find(split);
    // "split" follows from the fingerprint of train.
    if (split == "test" || split == "split" || found == now.end() || found->second == hex) continue;
    const std::string name = split == "teacher" ? "task.weights" : "dataset." + split;
    lines += fmt::format("\n  {}: {} -> {}", name, printable(hex), printable(found->second));
  }
  ENSURE(
      checkpoint, lines.empty(),
      "the data has changed since the checkpoint was saved; fingerprints:{}\nhint: restore the old "
      "data, add --accept-data-change to restart the current epoch with the new data, or omit "
      "--resume to start a new run",
      lines);
}

void commit_superseded(const fs::path& run_dir) {
  for (const fs::path& superseded : uncommitted_in(run_dir)) commit(superseded);
}

bool restore_superseded(const fs::path& run_dir) {
  bool any = false;
  for (const fs::path& superseded : uncommitted_in(run_dir)) {
    if (is_file(superseded / kRollback / kMarker) && !has_resumed(run_dir, superseded)) {
      any = restore_checkpoints(run_dir, superseded) || any;
      any = restore_files(run_dir, superseded) || any;
    }
    commit(superseded);
  }
  return any;
}

}  // namespace trainctl::study
