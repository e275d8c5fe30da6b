#include "study/run/history_gap.hpp"

#include "base/json.hpp"
#include "report/record/epoch_history.hpp"

#include <fmt/format.h>

#include <string_view>
#include <system_error>

namespace trainctl::study {
namespace {

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// Of the last line that tells one; 0 where there is none.
std::int64_t last_step_in(std::string_view lines) {
  while (!lines.empty()) {
    lines.remove_suffix(lines.ends_with('\n') ? 1 : 0);
    const std::size_t before = lines.rfind('\n');
    const std::size_t start = before == std::string_view::npos ? 0 : before + 1;
    const Json line = Json::parse(lines.substr(start), nullptr, /*allow_exceptions=*/false);
    const bool has_step = line.is_object() && line.contains("step");
    if (has_step && line["step"].is_number_integer()) return line["step"].get<std::int64_t>();
    lines = lines.substr(0, start);
  }
  return 0;
}

std::string ends_with(const char* file, std::string_view what, std::int64_t last) {
  return last > 0 ? fmt::format("{} ends with {} {}", file, what, last)
                  : fmt::format("{} has no {}", file, what);
}

/// Empty: it has all epochs that it must have.
std::string missing_epochs(const fs::path& csv, const Told& told) {
  if (!is_file(csv) || told.to.epoch <= told.from.epoch) return "";
  const auto epochs = report::read_epochs(csv);
  const std::int64_t last = epochs.empty() ? 0 : epochs.back().epoch + 1;
  return last < told.to.epoch ? ends_with("epochs.csv", "epoch", last) : "";
}

std::string missing_steps(const fs::path& lines, const Told& told) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;
  if (!is_file(lines) || told.log_every <= 0) return "";
  const std::int64_t logged = told.to.global_step / told.log_every * told.log_every;
  if (logged <= told.from.global_step) return "";
  const std::int64_t last = last_step_in(read_file(lines, kMostBytes, ReadFailure::resource));
  return last < logged ? ends_with("metrics.jsonl", "step", last) : "";
}

}  // namespace

std::optional<checkpoint::Moment> last_origin(const fs::path& run_dir) {
  constexpr std::uint64_t kMostBytes = 16 << 20;
  const fs::path file = run_dir / "result.json";
  if (!is_file(file)) return std::nullopt;
  const Json result =
      Json::parse(read_file(file, kMostBytes, ReadFailure::resource), nullptr, false);
  if (!result.is_object() || !result.contains("resumed_from")) return std::nullopt;
  const Json& from = result["resumed_from"];
  if (from.is_null()) return checkpoint::Moment{};
  if (!from.is_object() || !from.contains("path") || !from["path"].is_string()) return std::nullopt;
  return checkpoint::parse_folder_name(
      fs::path(from["path"].get<std::string>()).filename().string());
}

std::string missing_history(const fs::path& run_dir, const Told& told) {
  std::string text = missing_epochs(run_dir / "epochs.csv", told);
  const std::string steps = missing_steps(run_dir / "metrics.jsonl", told);
  if (!text.empty() && !steps.empty()) text += ", ";
  text += steps;
  if (text.empty()) return text;
  return fmt::format(
      "{}, and the checkpoint is of step {} in epoch {}: what was told between the two is lost",
      text, told.to.global_step, told.to.epoch + 1);
}

}  // namespace trainctl::study
