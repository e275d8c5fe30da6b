#include "study/resume/superseded.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/store.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <system_error>
#include <utility>

namespace trainctl::study {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;
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
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    const fs::path aside = run_dir / kSuperseded / name;
    const bool is_number = error == std::errc() && end == name.data() + name.size();
    if (is_number && checkpoint::is_folder(aside / kUndecided)) found.emplace_back(number, aside);
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
