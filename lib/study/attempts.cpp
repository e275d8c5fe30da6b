#include "study/attempts.hpp"

#include "base/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <system_error>
#include <utility>

namespace trainctl::study {
namespace {

const std::vector<spec::Fallback>& fallbacks(const RunRequest& request) {
  static const std::vector<spec::Fallback> kNone;
  if (request.task.kind != spec::TaskKind::train) return kNone;
  return request.loaded.experiment.trainer.on_divergence;
}

/// The lock stays, and so do earlier attempts.
bool stays(const fs::path& entry) {
  const std::string name = entry.filename().string();
  return name == ".lock" || name.starts_with("attempt-");
}

}  // namespace

Attempts::Attempts(const RunRequest& request, fs::path folder)
    : request_(request), folder_(std::move(folder)) {}

std::optional<RunRequest> Attempts::after(const report::Ending& ending) {
  const bool diverged = ending.exit_code == static_cast<int>(ErrorKind::diverged);
  if (!diverged || past_.size() >= fallbacks(request_).size()) return std::nullopt;
  const std::vector<std::string>& changes = fallbacks(request_)[past_.size()].values;
  RunRequest next = changed(changes);  // before the folder of this attempt is touched
  report::Attempt ended = told(ending);
  ended.folder = put_aside();
  past_.push_back(std::move(ended));
  changes_ = changes;
  return next;
}

RunRequest Attempts::changed(const std::vector<std::string>& changes) const {
  RunRequest next = request_;
  next.task.resume.clear();
  config::Diagnostics problems;  // were found when the file was read
  next.loaded = spec::overridden(request_.loaded, changes, problems);
  problems.throw_if_errors();
  next.overrides.insert(next.overrides.end(), changes.begin(), changes.end());
  return next;
}

std::string Attempts::put_aside() const {
  const std::string name = fmt::format("attempt-{}", past_.size() + 1);
  make_folder(folder_ / name);
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

std::string Attempts::notice() const {
  return fmt::format("attempt {} diverged ({}); attempt {} of {} starts from the beginning with {}",
                     past_.size(), past_.back().message, past_.size() + 1,
                     fallbacks(request_).size() + 1, fmt::join(changes_, " "));
}

report::Attempt Attempts::told(const report::Ending& ending) const {
  return {changes_, {}, ending.verdict, ending.exit_code, ending.message};
}

std::vector<report::Attempt> Attempts::with_last(const report::Ending& ending) const {
  if (fallbacks(request_).empty()) return {};
  std::vector<report::Attempt> all = past_;
  all.push_back(told(ending));
  return all;
}

}  // namespace trainctl::study
