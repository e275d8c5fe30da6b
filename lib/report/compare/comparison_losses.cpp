#include "base/error.hpp"
#include "base/strings.hpp"
#include "report/compare/comparison.hpp"
#include "report/record/history_files.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <system_error>

namespace trainctl::report {
namespace {

struct LossPoint {
  std::string metric;
  bool of_epoch = false;
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  double value = 0;
};

bool is_loss(std::string_view name) { return name.find("loss") != std::string_view::npos; }

std::int64_t whole_at(const Json& line, std::string_view key) {
  const Json& value = member(line, key);
  return value.is_number_integer() ? value.get<std::int64_t>() : 0;
}

void add_line(std::vector<LossPoint>& points, const Json& line) {
  const bool of_epoch = text_at(line, "type") == "epoch";
  for (const auto& [name, value] : line.items()) {
    if (is_loss(name))
      points.push_back(
          {name, of_epoch, whole_at(line, "epoch"), whole_at(line, "step"), number_at(line, name)});
  }
}

/// Read anew: a page may thin the lines out, a proof may not.
std::vector<LossPoint> losses_of(const RunFiles& run) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;
  std::vector<LossPoint> points;
  const fs::path file = run.folder / "metrics.jsonl";
  std::error_code ignored;
  if (fs::is_regular_file(file, ignored)) {
    const std::string text = read_file(file, kMostBytes, ReadFailure::resource);
    std::string_view rest = text;
    for (int number = 1; !rest.empty(); ++number) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const Json line = parse_bounded(rest.substr(0, end));
      const bool is_cut_off = end == rest.size();  // a run may be writing it
      ENSURE(data, line.is_object() || is_cut_off || end == 0,
             "cannot compare the losses of {}: line {} of metrics.jsonl is damaged",
             printable(run.folder.string()), number);
      if (line.is_object()) add_line(points, line);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  } else {
    for (const events::EpochEnded& epoch : run.epochs) {
      for (const auto& [name, value] : epoch.metrics) {
        if (is_loss(name))
          points.push_back({name, true, epoch.epoch + 1, epoch.global_step, value});
      }
    }
  }
  ENSURE(config, !points.empty(),
         "{} tells no loss, in neither metrics.jsonl nor epochs.csv: train it with the loggers csv "
         "or jsonl",
         printable(run.folder.string()));
  return points;
}

bool is_same_place(const LossPoint& a, const LossPoint& b) {
  return a.metric == b.metric && a.of_epoch == b.of_epoch && a.epoch == b.epoch && a.step == b.step;
}

bool is_same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

bool comes_before(const LossPoint& a, const LossPoint& b) {
  return a.step != b.step ? a.step < b.step : a.of_epoch < b.of_epoch;
}

LossDifference at(const LossPoint& point, const std::string& run) {
  return {.run = run,
          .metric = point.metric,
          .of_epoch = point.of_epoch,
          .epoch = point.epoch,
          .step = point.step,
          .wanted = std::nullopt,
          .found = std::nullopt};
}

std::optional<LossDifference> first_difference(const std::vector<LossPoint>& wanted,
                                               const std::vector<LossPoint>& found,
                                               const std::string& run) {
  for (std::size_t i = 0; i < std::max(wanted.size(), found.size()); ++i) {
    const LossPoint* a = i < wanted.size() ? &wanted[i] : nullptr;
    const LossPoint* b = i < found.size() ? &found[i] : nullptr;
    if (a != nullptr && b != nullptr && is_same_place(*a, *b)) {
      if (is_same(a->value, b->value)) continue;
      LossDifference difference = at(*a, run);
      difference.wanted = a->value;
      difference.found = b->value;
      return difference;
    }
    const bool only_wanted = b == nullptr || (a != nullptr && comes_before(*a, *b));
    LossDifference difference = at(only_wanted ? *a : *b, run);
    (only_wanted ? difference.wanted : difference.found) = (only_wanted ? a : b)->value;
    return difference;
  }
  return std::nullopt;
}

std::string value_text(const std::optional<double>& value) {
  return value ? fmt::format("{:a} ({})", *value, exact_text(*value)) : "not told";
}

}  // namespace

LossComparison compare_losses(const Compared& compared) {
  LossComparison comparison;
  std::vector<LossPoint> wanted;
  for (const Group& group : compared.groups) {
    for (const RunFiles& run : group.runs) {
      std::vector<LossPoint> found = losses_of(run);
      if (wanted.empty()) {
        wanted = std::move(found);
        comparison.losses = wanted.size();
        continue;
      }
      comparison.difference = first_difference(wanted, found, run.folder.string());
      if (comparison.difference) return comparison;
    }
  }
  return comparison;
}

std::string to_text(const LossDifference& difference, const std::string& first) {
  return fmt::format("{} {}, step {}: {} is {} in {} and {} in {}",
                     difference.of_epoch ? "the end of epoch" : "epoch", difference.epoch,
                     difference.step, printable(difference.metric), value_text(difference.wanted),
                     printable(first), value_text(difference.found), printable(difference.run));
}

}  // namespace trainctl::report
