#include "study/resume/metrics_history.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <map>
#include <set>
#include <system_error>
#include <utility>

namespace trainctl::study {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;

using Key = std::pair<std::int64_t, std::string>;

Key key_of(const MetricsLine& line) { return {line.step, line.type}; }

std::string name_of(const MetricsLine& line) {
  return fmt::format("{} {}", line.type == "step" ? "step" : line.type + " that ends with step",
                     line.step);
}

MetricsLine parse_line(const std::string& text, std::size_t number) {
  MetricsLine line;
  line.values = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_one = line.values.is_object() && line.values.contains("type") &&
                      line.values["type"].is_string() && line.values.contains("step") &&
                      line.values["step"].is_number_integer();
  ENSURE(unexpected, is_one, "line {} of metrics.jsonl is none: {}", number, printable(text));
  line.type = line.values["type"].get<std::string>();
  line.step = line.values["step"].get<std::int64_t>();
  line.values.erase("elapsed_s");
  return line;
}

/// Numbers are written so that they read back to the same bits: equal texts are equal numbers.
std::optional<std::string> difference_of(const MetricsLine& expected, const MetricsLine& found) {
  for (const auto& [key, value] : expected.values.items()) {
    const std::string wanted = to_line(value);
    const std::string got = found.values.contains(key) ? to_line(found.values[key]) : "missing";
    if (got != wanted)
      return fmt::format("{}: {} is {} and was {}", name_of(expected), printable(key), got, wanted);
  }
  if (found.values.size() != expected.values.size())
    return name_of(expected) + " has values that it had not";
  return std::nullopt;
}

}  // namespace

std::vector<MetricsLine> parse_metrics(std::string_view text) {
  std::vector<MetricsLine> lines;
  std::size_t number = 0;
  for (const std::string& one : split(text, '\n')) {
    ++number;
    if (!one.empty()) lines.push_back(parse_line(one, number));
  }
  return lines;
}

std::vector<MetricsLine> read_metrics(const fs::path& run_dir) {
  const fs::path file = run_dir / "metrics.jsonl";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  return parse_metrics(read_file(file, kMostBytes, ReadFailure::resource));
}

std::optional<std::string> first_difference(const std::vector<MetricsLine>& expected,
                                            const std::vector<MetricsLine>& found) {
  std::map<Key, const MetricsLine*> wanted;
  for (const MetricsLine& line : expected) wanted[key_of(line)] = &line;
  std::set<Key> told;
  for (const MetricsLine& line : found) {
    const auto at = wanted.find(key_of(line));
    if (at == wanted.end()) return name_of(line) + " is there, and was not";
    if (auto difference = difference_of(*at->second, line)) return difference;
    told.insert(at->first);
  }
  for (const auto& [key, line] : wanted) {
    if (!told.contains(key)) return name_of(*line) + " was never told";
  }
  return std::nullopt;
}

}  // namespace trainctl::study
