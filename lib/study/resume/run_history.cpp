#include "study/resume/run_history.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/store.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

namespace trainctl::study {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;
constexpr std::array kRewritten{"config.yaml", "config.resolved.yaml", "manifest.json",
                                "result.json"};

using Stays = std::function<bool(std::string_view line)>;

std::optional<std::int64_t> first_cell(std::string_view line) {
  return parse_number<std::int64_t>(line.substr(0, line.find(',')));
}

/// People count epochs from 1: rows of the first `epoch` epochs stay.
bool csv_row_stays(std::string_view line, const Point& point) {
  const auto epoch = first_cell(line);
  return epoch && *epoch <= point.epoch;
}

bool json_line_stays(std::string_view line, const Point& point) {
  const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto number = [&](const char* key) {
    return row.is_object() && row.contains(key) && row[key].is_number_integer()
               ? row[key].get<std::int64_t>()
               : std::numeric_limits<std::int64_t>::max();
  };
  if (row.is_object() && row.contains("type") && row["type"] == "epoch")
    return number("epoch") <= point.epoch;
  return number("step") <= point.global_step;
}

struct Sorted {
  std::string kept;
  std::string moved;
};

/// `lines`: without a header. A last line without its end was cut off.
Sorted sort_lines(std::string_view lines, const Stays& stays) {
  Sorted sorted;
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    const bool whole = end != std::string_view::npos;
    const std::string_view line = lines.substr(0, whole ? end : lines.size());
    const bool keep = whole && stays(line);
    (keep ? sorted.kept : sorted.moved).append(line).push_back('\n');
    lines.remove_prefix(whole ? end + 1 : lines.size());
  }
  return sorted;
}

/// The rows are written to their new place first: killed between the two they are in both.
void cut(const fs::path& file, bool has_header, const Stays& stays, Aside& aside) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return;
  const std::string text = read_file(file, kMostBytes, ReadFailure::resource);
  const std::size_t header_end = has_header ? text.find('\n') : 0;
  const std::size_t first =
      header_end == std::string::npos ? text.size() : header_end + (has_header ? 1 : 0);
  const Sorted sorted = sort_lines(std::string_view(text).substr(first), stays);
  if (sorted.moved.empty()) return;
  const std::string header = text.substr(0, first);
  write_atomically(aside.folder() / file.filename(), header + sorted.moved);
  aside.rewrite(file, header + sorted.kept);
}

bool counts_epochs(const fs::path& csv) {
  const std::string text = read_file(csv, kMostBytes, ReadFailure::resource);
  return text.starts_with("epoch,");
}

void copy_rewritten(const fs::path& run_dir, Aside& aside) {
  for (const char* name : kRewritten) {
    std::error_code failure;
    if (!fs::is_regular_file(run_dir / name, failure)) continue;
    fs::copy_file(run_dir / name, aside.folder() / name, failure);
    ENSURE(resource, !failure, "cannot copy {} to {}: {}", name, printable(aside.folder().string()),
           failure.message());
  }
}

}  // namespace

std::optional<fs::path> put_aside(const fs::path& run_dir, const Point& point) {
  Aside aside(run_dir, point.of_this_run
                           ? std::optional(checkpoint::Moment{point.global_step, point.epoch})
                           : std::nullopt);
  for (const std::string& name : checkpoint::names_in(run_dir)) {
    const fs::path file = run_dir / name;
    const bool is_history =
        file.extension() == ".csv" && fs::is_regular_file(file) && counts_epochs(file);
    if (is_history)
      cut(
          file, true, [&](std::string_view line) { return csv_row_stays(line, point); }, aside);
  }
  cut(
      run_dir / "metrics.jsonl", false,
      [&](std::string_view line) { return json_line_stays(line, point); }, aside);
  aside.move_checkpoints();
  copy_rewritten(run_dir, aside);
  return aside.made();
}

std::map<std::string, std::string> recorded_fingerprints(const fs::path& run_dir) {
  constexpr std::uint64_t kMostManifestBytes = 16 << 20;
  std::error_code ignored;
  const fs::path file = run_dir / "manifest.json";
  std::map<std::string, std::string> found;
  if (!fs::is_regular_file(file, ignored)) return found;
  const Json manifest =
      Json::parse(read_file(file, kMostManifestBytes, ReadFailure::resource), nullptr, false);
  if (!manifest.is_object() || !manifest.contains("data_fingerprints")) return found;
  const Json& splits = manifest["data_fingerprints"];
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
    lines +=
        fmt::format("\n  dataset.{}: {} -> {}", split, printable(hex), printable(found->second));
  }
  ENSURE(
      checkpoint, lines.empty(),
      "the data is not what the run began with, by its fingerprints:{}\nhint: bring the old data "
      "back; "
      "or add --accept-data-change: the epoch under way starts again with the new data; or leave "
      "--resume out: then a new run begins",
      lines);
}

namespace {

constexpr const char* kSuperseded = "superseded";
constexpr const char* kCheckpoints = "checkpoints";
/// Below superseded/N until the run has gone on: files as they were, and the mark.
constexpr const char* kUndecided = "undecided";
/// The checkpoint with which the run goes on, then those that move, a line each.
constexpr const char* kMark = "checkpoints.txt";

using Moment = std::optional<checkpoint::Moment>;

void move_to(const fs::path& from, const fs::path& to) {
  std::error_code failure;
  fs::rename(from, to, failure);
  ENSURE(resource, !failure, "cannot move {} to {}: {}", printable(from.string()),
         printable(to.string()), failure.message());
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// superseded/N that may still be taken back, the newest first.
std::vector<fs::path> undecided_in(const fs::path& run_dir) {
  std::vector<std::pair<int, fs::path>> found;
  for (const std::string& name : checkpoint::names_in(run_dir / kSuperseded)) {
    const auto number = parse_number<int>(name);
    const fs::path aside = run_dir / kSuperseded / name;
    if (number && checkpoint::is_folder(aside / kUndecided)) found.emplace_back(*number, aside);
  }
  std::ranges::sort(found, std::greater());
  std::vector<fs::path> folders;
  for (auto& [number, aside] : found) folders.push_back(std::move(aside));
  return folders;
}

/// The mark goes first: without it nothing is taken back. What cannot be removed is judged by the
/// next start.
void decide(const fs::path& aside) {
  std::error_code ignored;
  if (fs::remove(aside / kUndecided / kMark, ignored); !ignored)
    fs::remove_all(aside / kUndecided, ignored);  // copies alone
}

/// Told by checkpoints alone: whoever should have called keep_aside() may have been killed.
bool has_gone_on(const fs::path& run_dir, const fs::path& aside) {
  const std::vector<std::string> lines =
      split(read_file(aside / kUndecided / kMark, kMostBytes, ReadFailure::resource), '\n');
  const Moment from = checkpoint::parse_folder_name(lines.front());
  const auto is_new = [&](const std::string& name) {
    const Moment moment = checkpoint::parse_folder_name(name);
    if (!moment || (from && *moment <= *from)) return false;
    const bool was_there = std::ranges::count(lines, name) > 0;
    return checkpoint::is_committed(run_dir / kCheckpoints / name) &&
           (!was_there || checkpoint::is_folder(aside / kCheckpoints / name));
  };
  return std::ranges::any_of(checkpoint::names_in(run_dir / kCheckpoints), is_new);
}

/// A place that is taken by then is that of a save that was not finished.
bool restore_checkpoints(const fs::path& run_dir, const fs::path& aside) {
  bool any = false;
  for (const std::string& name : checkpoint::names_in(aside / kCheckpoints)) {
    const fs::path place = run_dir / kCheckpoints / name;
    if (checkpoint::is_folder(place)) continue;
    move_to(aside / kCheckpoints / name, place);
    any = true;
  }
  std::error_code ignored;
  fs::remove(aside / kCheckpoints, ignored);  // where it is empty
  if (!any) return false;
  sync_folder(run_dir / kCheckpoints);
  checkpoint::Store store(run_dir / kCheckpoints);
  for (const checkpoint::Found& found : store.list()) {
    if (!found.manifest) continue;
    store.point(checkpoint::Link::last, found.path);
    break;
  }
  return true;
}

bool restore_files(const fs::path& run_dir, const fs::path& aside) {
  bool any = false;
  for (const std::string& name : checkpoint::names_in(aside / kUndecided)) {
    if (name == kMark || name.starts_with('.')) continue;
    move_to(aside / kUndecided / name, run_dir / name);
    std::error_code ignored;
    fs::remove(aside / name, ignored);  // its rows are in the file again
    any = true;
  }
  return any;
}

}  // namespace

Aside::Aside(fs::path run_dir, Moment from) : run_dir_(std::move(run_dir)), from_(from) {}

fs::path Aside::folder() {
  if (made_) return *made_;
  const fs::path all = run_dir_ / kSuperseded;
  make_folder(all);
  std::error_code failure;
  for (int number = 1; !made_; ++number) {
    const fs::path free = all / std::to_string(number);
    if (fs::create_directory(free, failure)) made_ = free;
    ENSURE(resource, !failure, "cannot make {}: {}", printable(free.string()), failure.message());
  }
  make_folder(*made_ / kUndecided);
  std::string mark = from_ ? checkpoint::folder_name(*from_) : std::string();
  for (const std::string& name : later_checkpoints()) mark += "\n" + name;
  write_atomically(*made_ / kUndecided / kMark, mark + "\n");
  sync_folder(*made_);
  return *made_;
}

void Aside::rewrite(const fs::path& file, std::string_view text) {
  const fs::path kept = folder() / kUndecided / file.filename();
  std::error_code unknown;
  const fs::file_time_type written_at = fs::last_write_time(file, unknown);
  std::error_code ignored;
  const auto write = [&](const fs::path& path, std::string_view bytes) {
    write_atomically(path, bytes);
    if (!unknown) fs::last_write_time(path, written_at, ignored);
  };
  write(kept, read_file(file, kMostBytes, ReadFailure::resource));
  write(file, text);
}

std::vector<std::string> Aside::later_checkpoints() const {
  std::vector<std::string> names = checkpoint::names_in(run_dir_ / kCheckpoints);
  std::erase_if(names, [&](const std::string& name) {
    const Moment moment = checkpoint::parse_folder_name(name);
    return !moment || (from_ && *moment <= *from_);
  });
  return names;
}

void Aside::move_checkpoints() {
  const std::vector<std::string> names = later_checkpoints();
  if (names.empty()) return;
  const fs::path target = folder() / kCheckpoints;
  make_folder(target);
  for (const std::string& name : names) move_to(run_dir_ / kCheckpoints / name, target / name);
  sync_folder(target);
  sync_folder(*made_);
}

void keep_aside(const fs::path& run_dir) {
  for (const fs::path& aside : undecided_in(run_dir)) decide(aside);
}

bool take_back(const fs::path& run_dir) {
  bool any = false;
  for (const fs::path& aside : undecided_in(run_dir)) {
    if (is_file(aside / kUndecided / kMark) && !has_gone_on(run_dir, aside)) {
      any = restore_checkpoints(run_dir, aside) || any;
      any = restore_files(run_dir, aside) || any;
    }
    decide(aside);
  }
  return any;
}

}  // namespace trainctl::study
