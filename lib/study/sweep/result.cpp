#include "study/sweep/result.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "events/records.hpp"
#include "report/record/run_files.hpp"
#include "report/text/table.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <system_error>
#include <vector>

namespace trainctl::study {
namespace {

constexpr std::uint64_t kMostFileBytes = std::uint64_t{64} << 20;

std::string text_at(const fs::path& path) {
  if (!is_file(path)) return {};
  try {
    return read_file(path, kMostFileBytes, ReadFailure::resource);
  } catch (const Error&) {
    return {};
  }
}

/// Returns nullopt for a number that is not finite, which result.json writes as text.
std::optional<double> finite(const Json& object, const char* key) {
  const Json& value = report::member(object, key);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

void add_metrics(const Json& document, const char* split, RunEnd& end) {
  const Json& metrics = report::member(document, split);
  if (!metrics.is_object()) return;
  for (const auto& [name, value] : metrics.items()) {
    if (value.is_number())
      end.metrics.emplace_back(std::string(split) + "/" + name, value.get<double>());
  }
}

/// Used without epochs.csv: returns the best value if result.json has the same monitor, else the
/// value of the last epoch.
std::optional<double> value_in(const Json& document, const RunEnd& end, const Ranking& ranking) {
  const Json& best = report::member(document, "best");
  if (report::member(best, "metric") == ranking.monitor) return finite(best, "value");
  return events::find_metric(end.metrics, ranking.monitor);
}

/// Returns whether the OOM killer has killed a rank, which the supervisor of the run survives.
bool lacked_memory(const Json& document) {
  constexpr const char* kCause = "out of memory";
  const Json& failure = report::member(document, "first_failure");
  const Json& signal = report::member(failure, "signal");
  return signal == "SIGKILL" || signal == SIGKILL ||
         report::text_at(failure, "message").find(kCause) != std::string::npos;
}

}  // namespace

std::string result_hash(const fs::path& run_dir) {
  const std::string text = text_at(run_dir / "result.json");
  if (text.empty()) return {};
  Hasher hasher;
  hasher.add(text);
  return hasher.hex();
}

std::optional<RunEnd> run_end(const fs::path& run_dir, const std::string& result_before,
                              const Ranking& ranking) {
  const std::string text = text_at(run_dir / "result.json");
  if (text.empty() || result_hash(run_dir) == result_before) return std::nullopt;
  const Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!report::member(document, "exit_code").is_number_integer()) return std::nullopt;
  RunEnd end;
  end.exit_code = document["exit_code"].get<int>();
  end.message = report::text_at(document, "message");
  end.epochs = static_cast<std::int64_t>(finite(document, "epochs").value_or(0));
  end.wall_s = finite(document, "wall_s").value_or(0);
  end.lacked_memory = lacked_memory(document);
  add_metrics(document, "train", end);
  add_metrics(document, "val", end);
  end.value = best_in_table(run_dir / "epochs.csv", ranking);
  if (!end.value) end.value = value_in(document, end, ranking);
  return end;
}

std::optional<double> value_in(const LedgerRun& run, const Ranking& ranking) {
  return events::find_metric(run.metrics, ranking.monitor);
}

std::string last_log_line(const fs::path& log) {
  constexpr std::size_t kMostShown = 300;
  const std::string text = text_at(log);
  const std::vector<std::string> lines = split(text, '\n');
  const auto last = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) {
    return line.find_first_not_of(" \t\r") != std::string::npos;
  });
  return last == lines.rend() ? std::string() : last->substr(0, kMostShown);
}

std::optional<double> best_in_table(const fs::path& epochs_csv, const Ranking& ranking) {
  const std::vector<std::string> lines = split(text_at(epochs_csv), '\n');
  if (lines.empty()) return std::nullopt;
  const std::vector<std::string> header = report::csv_cells(lines.front());
  const auto column = std::ranges::find(header, ranking.monitor);
  if (column == header.end()) return std::nullopt;
  const auto at = static_cast<std::size_t>(column - header.begin());
  std::optional<double> best;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> cells = report::csv_cells(lines[i]);
    const auto value = at < cells.size() ? parse_number<double>(cells[at]) : std::nullopt;
    if (!value || !std::isfinite(*value)) continue;
    const bool is_better =
        !best || (ranking.better == report::Better::lower ? *value < *best : *value > *best);
    if (is_better) best = value;
  }
  return best;
}

}  // namespace trainctl::study
