#include "study/run/restarts.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"
#include "log/log.hpp"
#include "study/run/run_ending.hpp"

#include <fmt/ranges.h>

#include <system_error>

namespace trainctl::study {
namespace {

std::optional<std::int64_t> step_of(const ResumeOrigin& origin) {
  return origin.checkpoint.empty() ? std::nullopt : std::optional(origin.manifest.global_step);
}

const std::vector<spec::Fallback>& fallbacks(const RunRequest& request) {
  static const std::vector<spec::Fallback> kNone;
  if (request.job.kind != spec::JobKind::train) return kNone;
  return request.loaded.experiment.trainer.on_divergence;
}

/// The lock and earlier attempts stay in the run folder.
bool stays(const fs::path& entry) {
  const std::string name = entry.filename().string();
  return name == ".lock" || name.starts_with("attempt-");
}

/// Returns the attempts in result.json of the folder, the attempt that was running last; empty if
/// the file cannot be read.
std::vector<report::Attempt> recorded(const fs::path& folder) {
  const Json result = read_object(folder / "result.json");
  if (result.is_null() || !result.contains("attempts")) return {};
  std::vector<report::Attempt> all;
  try {
    for (const Json& each : result["attempts"]) {
      all.push_back({each.at("overrides").get<std::vector<std::string>>(),
                     each.at("folder").is_null() ? "" : each.at("folder").get<std::string>(),
                     each.at("verdict").get<std::string>(),
                     each.at("exit_code").is_null() ? 0 : each.at("exit_code").get<int>(),
                     each.at("message").get<std::string>()});
    }
  } catch (const Json::exception&) {  // not written by this program
    return {};
  }
  return all;
}

std::string make_free(const fs::path& folder, std::size_t number) {
  for (;; ++number) {
    std::string name = fmt::format("attempt-{}", number);
    std::error_code failure;
    if (fs::create_directory(folder / name, failure)) return name;
    ENSURE(resource, !failure || failure == std::errc::file_exists, "cannot create {}: {}",
           printable((folder / name).string()), failure.message());
  }
}

/// Replaces the paths of the folder's `diverged` in a message by their paths after the move.
std::string with_moved_paths(std::string message, const fs::path& folder,
                             const std::string& attempt) {
  const std::string before = printable((folder / "diverged").string()) + "/";
  const std::string after = printable((folder / attempt / "diverged").string()) + "/";
  for (auto at = message.find(before); at != std::string::npos;
       at = message.find(before, at + after.size()))
    message.replace(at, before.size(), after);
  return message;
}

}  // namespace

bool RestartPolicy::can_help(int exit_code) {
  return exit_code == static_cast<int>(ErrorKind::rank_failed) ||
         exit_code == static_cast<int>(ErrorKind::hang);
}

RestartPolicy::Decision RestartPolicy::after(int exit_code, std::optional<std::int64_t> newest) {
  if (!can_help(exit_code)) return Decision::stop;
  if (newest > newest_) {
    newest_ = newest;
    idle_ = 0;
  } else if (made_ > 0) {
    ++idle_;
  }
  if (idle_ >= kMostIdle) return Decision::no_progress;
  if (made_ >= most_) return Decision::stop;
  ++made_;
  return Decision::restart;
}

Restarts::Restarts(int most, fs::path run_dir, const ResumeOrigin& origin)
    : run_dir_(std::move(run_dir)), policy_(most, step_of(origin)) {}

std::optional<ResumeOrigin> Restarts::choose() const {
  try {
    return choose_checkpoint(run_dir_, {.from = ResumeFrom::automatic});
  } catch (const Error& error) {
    log::get().warn("cannot restart the run: {}", error.what());
    return std::nullopt;
  }
}

void Restarts::decide(report::RunResult& ending, const ResumeOrigin* again) {
  next_.reset();
  ending.restarts = policy_.made();
  if (policy_.most() == 0 || !RestartPolicy::can_help(ending.exit_code)) return;
  std::optional<ResumeOrigin> next = again != nullptr ? std::optional(*again) : choose();
  if (!next) return;
  const auto answer = policy_.after(ending.exit_code, step_of(*next));
  if (answer == RestartPolicy::Decision::no_progress) {
    ending.message = fmt::format("{} consecutive restarts wrote no newer checkpoint; {}",
                                 RestartPolicy::kMostIdle, ending.message);
    ending.exit_code = static_cast<int>(ErrorKind::no_progress);
  } else if (answer == RestartPolicy::Decision::restart) {
    notice_ = fmt::format(
        "{}; restart {} of {} resumes from {}", without_hint(ending.message), policy_.made(),
        policy_.most(),
        next->checkpoint.empty() ? "the beginning" : printable(next->checkpoint.string()));
    next_ = std::move(next);
  }
}

Attempts::Attempts(const RunRequest& request, fs::path folder)
    : request_(request), folder_(std::move(folder)) {
  if (!request_.resume || fallbacks(request_).empty()) return;
  past_ = recorded(folder_);
  if (past_.empty()) return;
  changes_ = past_.back().overrides;
  past_.pop_back();
}

bool Attempts::has_next(const report::RunResult& ending) const {
  const bool diverged = ending.exit_code == static_cast<int>(ErrorKind::diverged);
  return diverged && past_.size() < fallbacks(request_).size();
}

std::optional<RunRequest> Attempts::after(const report::RunResult& ending) {
  if (!has_next(ending)) return std::nullopt;
  const std::vector<std::string>& changes = fallbacks(request_)[past_.size()].values;
  RunRequest next = changed(changes);  // may throw, so it comes before the folder is changed
  report::Attempt ended = record_of(ending);
  ended.folder = move_files();
  ended.message = with_moved_paths(ended.message, folder_, ended.folder);
  past_.push_back(std::move(ended));
  changes_ = changes;
  return next;
}

RunRequest Attempts::current() const {
  const bool is_in_file = request_.config_file.filename() == "config.resolved.yaml" &&
                          lies_in(request_.config_file, folder_);
  return changes_.empty() || is_in_file ? request_ : changed(changes_);
}

RunRequest Attempts::changed(const std::vector<std::string>& changes) const {
  RunRequest next = request_;
  next.job.resume.clear();
  next.job.accepts_data_change = false;
  config::Diagnostics problems;  // already reported when the file was loaded
  next.loaded = spec::overridden(request_.loaded, changes, problems);
  problems.throw_if_errors();
  next.overrides.insert(next.overrides.end(), changes.begin(), changes.end());
  return next;
}

std::string Attempts::move_files() const {
  const std::string name = make_free(folder_, past_.size() + 1);
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder_)) entries.push_back(entry.path());
  for (const fs::path& entry : entries) {
    if (stays(entry)) continue;
    std::error_code failure;
    fs::rename(entry, folder_ / name / entry.filename(), failure);
    ENSURE(resource, !failure, "cannot move {} into {}: {}", entry.string(), name,
           failure.message());
  }
  return name;
}

std::string Attempts::notice(StartFrom start_from) const {
  return fmt::format("attempt {} diverged ({}); attempt {} of {} {} with {}", past_.size(),
                     without_hint(past_.back().message), past_.size() + 1,
                     fallbacks(request_).size() + 1,
                     start_from == StartFrom::beginning ? "starts from the beginning" : "resumes",
                     fmt::join(changes_, " "));
}

report::Attempt Attempts::record_of(const report::RunResult& ending) const {
  return {changes_, {}, ending.verdict, ending.exit_code, ending.message};
}

std::vector<report::Attempt> Attempts::with_last(const report::RunResult& ending) const {
  if (fallbacks(request_).empty()) return {};
  std::vector<report::Attempt> all = past_;
  all.push_back(record_of(ending));
  return all;
}

}  // namespace trainctl::study
