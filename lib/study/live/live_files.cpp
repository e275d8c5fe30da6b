#include "study/live/live_files.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/numbers.hpp"
#include "checkpoint/store.hpp"
#include "report/text/table.hpp"
#include "study/folder/folder_lock.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

namespace trainctl::study {

using report::TopState;
using report::TopView;

namespace {

constexpr std::streamoff kTail = 256 * 1024;
constexpr std::size_t kMostLosses = 400;
constexpr std::size_t kMostWarnings = 5;
constexpr std::uint64_t kMostDocument = 64 << 20;

/// Returns a stream that fails where there is no regular file: opening a pipe would wait.
std::ifstream open_regular(const fs::path& file, std::ios::openmode mode = std::ios::in) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) ? std::ifstream(file, mode) : std::ifstream();
}

/// Whole lines at the end of a file.
std::vector<std::string> last_lines(const fs::path& file) {
  std::ifstream in = open_regular(file, std::ios::binary | std::ios::ate);
  if (!in.is_open()) return {};
  const auto size = static_cast<std::streamoff>(in.tellg());
  in.seekg(std::max<std::streamoff>(0, size - kTail));
  std::string line;
  if (size > kTail) std::getline(in, line);  // the rest of one that began before
  std::vector<std::string> lines;
  while (std::getline(in, line)) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

Json document_in(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return nullptr;
  try {
    return Json::parse(read_file(file, kMostDocument, ReadFailure::resource), nullptr, false);
  } catch (const Error&) {
    return nullptr;
  }
}

std::string word_in(const Json& document, const char* key) {
  if (!document.is_object()) return {};
  const auto found = document.find(key);
  return found != document.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<double> number_in(const Json& document, const char* key) {
  if (!document.is_object()) return std::nullopt;
  const auto found = document.find(key);
  if (found == document.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  if (*found == "nan") return std::nan("");
  if (*found == "inf" || *found == "-inf") return HUGE_VAL;
  return std::nullopt;
}

std::int64_t whole_in(const Json& document, const char* key) {
  const double number = number_in(document, key).value_or(0);
  return number > -9e15 && number < 9e15 ? static_cast<std::int64_t>(number) : 0;
}

/// Steps in the order they were done: what a run that goes on does again replaces what it did.
struct History {
  struct Line {
    std::int64_t step = 0;
    double elapsed_s = 0;
    double loss = 0;
  };
  std::vector<Line> steps;
  Json epoch = nullptr;  // the last

  void add(const Json& line) {
    const std::string type = word_in(line, "type");
    if (type == "epoch") epoch = line;
    if (type != "step") return;
    const Line read{whole_in(line, "step"), number_in(line, "elapsed_s").value_or(0),
                    number_in(line, "train/loss").value_or(std::nan(""))};
    while (!steps.empty() && steps.back().step >= read.step) steps.pop_back();
    steps.push_back(read);
  }
};

/// A cell of the last row of epochs.csv.
std::optional<double> cell_of(const std::vector<std::string>& header,
                              const std::vector<std::string>& row, const std::string& column) {
  const auto at = std::ranges::find(header, column) - header.begin();
  if (at >= std::min(std::ssize(header), std::ssize(row))) return std::nullopt;
  return parse_number<double>(row[static_cast<std::size_t>(at)]);
}

/// What metrics.jsonl has not told: a run may leave that logger out.
void add_newer_epoch(const std::vector<std::string>& names, const std::vector<std::string>& row,
                     TopView& view) {
  constexpr double kMost = 9e15;
  const double epoch = cell_of(names, row, "epoch").value_or(0);
  if (!(epoch > static_cast<double>(view.epoch) && epoch < kMost)) return;
  view.epoch = static_cast<std::int64_t>(epoch);
  const double step = cell_of(names, row, "step").value_or(0);
  if (step > 0 && step < kMost) view.step = std::max(view.step, static_cast<std::int64_t>(step));
  view.lr = cell_of(names, row, "lr");
  view.metrics.clear();
  for (const std::string& name : names) {
    const auto value =
        name.find('/') == std::string::npos ? std::nullopt : cell_of(names, row, name);
    if (value) view.metrics.emplace_back(name, *value);
  }
}

bool warns(const std::string& line) {
  return line.find("warning") != std::string::npos || line.find("Warning") != std::string::npos ||
         line.find("WARN") != std::string::npos || line.find("error") != std::string::npos;
}

std::optional<LockHolder> holder_of(const fs::path& run_dir) {
  std::ifstream in = open_regular(run_dir / FolderLock::kFileName);
  std::string line;
  return std::getline(in, line) ? read_lock_line(line) : std::nullopt;
}

}  // namespace

LiveCourse course_of(const fs::path& run_dir) {
  const Json manifest = document_in(run_dir / "manifest.json");
  const Json course = manifest.is_object() ? manifest.value("course", Json()) : Json();
  return {.max_epochs = std::max<std::int64_t>(0, whole_in(course, "max_epochs")),
          .steps_per_epoch = std::max<std::int64_t>(0, whole_in(course, "steps_per_epoch")),
          .global_batch = number_in(course, "global_batch")};
}

void add_state(const fs::path& run_dir, TopView& view) {
  const Json result = document_in(run_dir / "result.json");
  const std::string verdict = word_in(result, "verdict");
  const auto holder = holder_of(run_dir);
  const LockHolder here = this_process();
  if (holder) {
    view.host = holder->host;
    view.pid = holder->pid;
    view.since = holder->since;
  }
  if (holder && surely_lives(*holder, here)) {
    view.state = TopState::running;
  } else if (!verdict.empty() && verdict != "unfinished") {
    view.state = TopState::ended;
    view.verdict = verdict;
    view.message = word_in(result, "message");
    if (const auto code = number_in(result, "exit_code"))
      view.exit_code = static_cast<std::int64_t>(*code);
  } else {
    view.state = !holder || why_gone(*holder, here) ? TopState::gone : TopState::elsewhere;
  }
}

void add_metrics(const fs::path& run_dir, TopView& view) {
  History history;
  const std::vector<std::string> lines = last_lines(run_dir / "metrics.jsonl");
  std::size_t damaged = 0;
  for (const std::string& text : lines) {
    const Json line = Json::parse(text, nullptr, false);
    if (!line.is_object() && &text != &lines.back()) ++damaged;  // the last may be half written
    history.add(line);
  }
  if (damaged > 0)
    view.warnings.push_back(
        fmt::format("metrics.jsonl: {} damaged {}", damaged, damaged == 1 ? "line" : "lines"));
  const auto& steps = history.steps;
  const std::size_t first = steps.size() > kMostLosses ? steps.size() - kMostLosses : 0;
  for (std::size_t i = first; i < steps.size(); ++i) view.losses.push_back(steps[i].loss);
  if (!steps.empty()) view.step = steps.back().step;
  if (steps.size() > 1) {
    const auto& last = steps.back();
    const auto& before = steps[steps.size() - 2];
    if (last.elapsed_s > before.elapsed_s)
      view.steps_per_s =
          static_cast<double>(last.step - before.step) / (last.elapsed_s - before.elapsed_s);
  }
  if (!history.epoch.is_object()) return;
  view.epoch = whole_in(history.epoch, "epoch");
  view.step = std::max(view.step, whole_in(history.epoch, "step"));
  view.lr = number_in(history.epoch, "lr");
  for (const auto& [name, value] : history.epoch.items()) {
    if (name.find('/') == std::string::npos) continue;
    if (const auto number = number_in(history.epoch, name.c_str()))
      view.metrics.emplace_back(name, *number);
  }
}

void add_last_epoch(const fs::path& run_dir, TopView& view) {
  std::ifstream in = open_regular(run_dir / "epochs.csv");
  std::string header;
  const std::vector<std::string> lines = last_lines(run_dir / "epochs.csv");
  if (!std::getline(in, header) || lines.empty() || lines.back() == header) return;
  const auto names = report::csv_cells(header);
  const auto row = report::csv_cells(lines.back());
  add_newer_epoch(names, row, view);
  view.samples_per_s = cell_of(names, row, "samples_per_s");
  const auto wall = cell_of(names, row, "wall_s");
  const auto wait = cell_of(names, row, "data_wait_s");
  if (wall && wait && *wall > 0) view.data_wait_share = *wait / *wall;
  const std::int64_t total = view.max_epochs * view.steps_per_epoch;
  if (wall && total > view.step)
    view.eta_s =
        static_cast<double>(total - view.step) / static_cast<double>(view.steps_per_epoch) * *wall;
}

void add_checkpoint(const fs::path& run_dir, TopView& view) {
  std::error_code ignored;
  if (!fs::is_directory(run_dir / "checkpoints", ignored)) return;
  try {
    for (const checkpoint::Found& found : checkpoint::Store(run_dir / "checkpoints").list()) {
      struct stat info {};
      if (!found.committed || ::stat(found.path.c_str(), &info) != 0) continue;
      view.checkpoint = {found.name, found.moment.global_step,
                         std::max(0.0, std::difftime(std::time(nullptr), info.st_mtime))};
      return;
    }
  } catch (const Error&) {  // a look is no reason to complain
  }
}

void add_warnings(const fs::path& run_dir, TopView& view) {
  std::vector<fs::path> logs;
  std::error_code failure;
  for (fs::directory_iterator at(run_dir / "logs", failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->path().extension() == ".log") logs.push_back(at->path());
  }
  std::ranges::sort(logs);
  for (const fs::path& log : logs) {
    for (const std::string& line : last_lines(log)) {
      if (warns(line)) view.warnings.push_back(log.stem().string() + ": " + line);
    }
  }
  if (view.warnings.size() > kMostWarnings)
    view.warnings.erase(view.warnings.begin(), view.warnings.end() - kMostWarnings);
}

}  // namespace trainctl::study
