#include "study/resume/run_comparison.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/store.hpp"

#include <cstddef>
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

using report::Agreement;
using report::Sameness;

namespace {

std::optional<fs::path> last_of(const fs::path& run_dir) {
  return checkpoint::Store(run_dir / "checkpoints").pointed(checkpoint::Link::last);
}

}  // namespace

Agreement finding(const std::optional<std::string>& difference) {
  if (difference) return {Sameness::different, *difference};
  return {Sameness::identical, ""};
}

Agreement compare_section(const fs::path& expected, const fs::path& found,
                          const checkpoint::Section& section) {
  const auto wanted = last_of(expected);
  const auto got = last_of(found);
  if (!wanted || !got) return {Sameness::untold, "a run has left no last checkpoint"};
  try {
    return finding(checkpoint::first_difference(*wanted, *got, section));
  } catch (const Error& error) {
    return {Sameness::different, error.what()};
  }
}

BatchDigests batch_digests(const std::vector<const report::RunRecord*>& records) {
  BatchDigests digests;
  for (const report::RunRecord* record : records) {
    for (const events::EpochEnded& epoch : record->epochs) {
      if (!epoch.data_digest.empty()) digests.epochs[epoch.epoch] = epoch.data_digest;
    }
    const auto finished = record->finished.find(0);
    if (finished != record->finished.end()) digests.run = finished->second.data_digest;
  }
  return digests;
}

Agreement compare(const BatchDigests& expected, const BatchDigests& found) {
  std::size_t told = 0;
  for (const auto& [epoch, digest] : expected.epochs) {
    const auto at = found.epochs.find(epoch);
    if (at == found.epochs.end()) continue;
    ++told;
    if (at->second != digest)
      return {Sameness::different,
              fmt::format("those of epoch {}: {} and not {}", epoch + 1, at->second, digest)};
  }
  if (!found.run.empty() && !expected.run.empty()) {
    ++told;
    if (found.run != expected.run)
      return {Sameness::different,
              fmt::format("those of the run: {} and not {}", found.run, expected.run)};
  }
  if (told == 0) return {Sameness::untold, "the runs have no digests of their batches in common"};
  return {Sameness::identical, ""};
}

}  // namespace trainctl::study
