#include "report/plan/multi_rank_plan.hpp"

#include "base/strings.hpp"
#include "report/text/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace trainctl::report {
namespace {

constexpr int kLabelWidth = 11;
constexpr std::size_t kMostBuckets = 6;

std::string fact(const std::string& label, const std::string& text, const Style& style) {
  return "  " + paint(pad(label, kLabelWidth, Align::left), Ink::cyan, style) + text + "\n";
}

std::int64_t gradient_bytes(const ExchangedStep& step) {
  return std::accumulate(step.buckets.begin(), step.buckets.end(), std::int64_t{0});
}

std::string gradients_text(const ExchangedStep& step) {
  std::string text = human_bytes(static_cast<double>(gradient_bytes(step)));
  if (step.buckets.size() < 2) return text + " in one bucket";
  text += fmt::format(" in {} buckets: ", step.buckets.size());
  for (std::size_t i = 0; i < std::min(step.buckets.size(), kMostBuckets); ++i)
    text += (i > 0 ? ", " : "") + human_bytes(static_cast<double>(step.buckets[i]));
  return step.buckets.size() > kMostBuckets ? text + ", ..." : text;
}

const char* name_of(Exchange exchange) {
  switch (exchange) {
    case Exchange::gradients: return "gradients";
    case Exchange::gradients_and_weights: return "gradients and weights";
    case Exchange::weights: return "weights";
  }
  return "";
}

std::string link_line(const PlannedScaling& scaling) {
  return fmt::format("{} a message, {} ({})", latency_text(scaling.link.latency_s),
                     bandwidth_text(scaling.link.bytes_per_s), printable(scaling.link_from));
}

std::string shared_line(const SharedStep& shared) {
  return fmt::format(
      "the step of {} ranks was timed with {} processes side by side on the cores of this machine, "
      "with {} thread{} each; each rank of the other rows has cores of its own",
      shared.ranks, shared.ranks, shared.num_threads, shared.num_threads == 1 ? "" : "s");
}

std::string step_text(const ForetoldStep& row) {
  const std::string step = human_duration(row.step_s);
  if (!row.measured) return step;
  return fmt::format("{} ({} to {})", step, human_duration(row.measured->low_s),
                     human_duration(row.measured->high_s));
}

std::string step_line(const PlannedScaling& scaling) {
  return fmt::format("{} alone on {}, of them {} backward ({})",
                     human_duration(scaling.step.step_s), printable(scaling.device),
                     human_duration(scaling.step.backward_s), scaling.backward_from);
}

}  // namespace

std::vector<ForetoldStep> foretell_growth(const ExchangedStep& step, const Link& link, int ranks) {
  std::vector<ForetoldStep> rows;
  for (const int number : std::set{1, ranks, 64, 1024})
    rows.push_back(foretell(step, link, number));
  return rows;
}

void use_measured(const SharedStep& shared, const ExchangedStep& alone,
                  std::vector<ForetoldStep>& rows) {
  for (ForetoldStep& row : rows) {
    if (row.ranks != shared.ranks || shared.step_s <= 0) continue;
    row.step_s = shared.step_s;
    row.exposed_s = shared.exposed_s;
    row.samples_per_s = static_cast<double>(alone.samples) * row.ranks / row.step_s;
    row.efficiency = alone.step_s / row.step_s;
    row.measured = shared.range;
  }
}

std::vector<std::string> scaling_assumptions(const PlannedScaling& scaling) {
  const ExchangedStep& step = scaling.step;
  std::vector<std::string> all{
      "each rank has a device (or cores) of its own, like the one that the step was measured on",
      "one ring, whose slowest link is the one above, whatever the number of ranks",
      "gradients come up during the backward pass in proportion to their bytes",
      "nothing waits for data, no rank is slower than another, the exchange costs no computing",
      "weak scaling: the batch of a rank stays, that of a step grows with the ranks"};
  if (step.exchange == Exchange::weights)
    all[2] = fmt::format(
        "local_sgd: weights are averaged after {}, beside nothing; a row has the mean of a step",
        step.every == 1 ? "every step" : fmt::format("{} steps", step.every));
  if (step.exchange == Exchange::gradients_and_weights)
    all.emplace_back(
        "zero1: the weights go round after the step, beside nothing; the step that was timed "
        "updates all of them, and each of N ranks 1/N, so the steps of several ranks are rather "
        "too long");
  if (step.batches > 1)
    all.emplace_back(
        "a step of several batches takes as many times the step that was timed, with an update "
        "each, which is rather too much");
  if (scaling.shared) all.front() = shared_line(*scaling.shared);
  return all;
}

std::string scaling_text(const PlannedScaling& scaling, const Style& style) {
  Table table({{"ranks"},
               {"samples a step"},
               {"exchange"},
               {"exposed"},
               {"step"},
               {"samples/s"},
               {"efficiency"}});
  for (const ForetoldStep& row : scaling.rows) {
    table.add({with_thousands(row.ranks), with_thousands(row.ranks * scaling.step.samples),
               human_duration(row.exchange_s), human_duration(row.exposed_s), step_text(row),
               rate_text(row.samples_per_s), percent_text(row.efficiency) + " %"});
  }
  std::string text = to_text(table, style) + "\n";
  text += fact("exchange", kRingFormula, style);
  text += fact(scaling.step.exchange == Exchange::weights ? "weights" : "gradients",
               gradients_text(scaling.step), style);
  if (scaling.step.exchange == Exchange::gradients_and_weights)
    text += fact("weights", human_bytes(static_cast<double>(scaling.step.weight_bytes)), style);
  text += fact("link", link_line(scaling), style);
  text += fact("step", step_line(scaling), style);
  const char* label = "assumed";
  for (const std::string& assumption : scaling_assumptions(scaling)) {
    text += fact(label, assumption, style);
    label = "";
  }
  return text;
}

Json scaling_json(const PlannedScaling& scaling) {
  Json rows = Json::array();
  for (const ForetoldStep& row : scaling.rows) {
    rows.push_back({{"ranks", row.ranks},
                    {"global_batch", row.ranks * scaling.step.samples / scaling.step.batches},
                    {"samples_per_step", row.ranks * scaling.step.samples},
                    {"exchange_s", row.exchange_s},
                    {"exposed_s", row.exposed_s},
                    {"step_s", row.step_s},
                    {"step_low_s", row.measured ? Json(row.measured->low_s) : Json(nullptr)},
                    {"step_high_s", row.measured ? Json(row.measured->high_s) : Json(nullptr)},
                    {"measured", row.measured.has_value()},
                    {"samples_per_s", row.samples_per_s},
                    {"efficiency", row.efficiency}});
  }
  return {{"schema", "trainctl.scaling/1"},
          {"formula", kRingFormula},
          {"exchange", name_of(scaling.step.exchange)},
          {"steps_an_exchange", scaling.step.every},
          {"gradient_bytes", gradient_bytes(scaling.step)},
          {"bucket_bytes", scaling.step.buckets},
          {"link",
           {{"latency_s", scaling.link.latency_s},
            {"bandwidth_bytes_per_s", scaling.link.bytes_per_s},
            {"from", scaling.link_from}}},
          {"device", scaling.device},
          {"step_s", scaling.step.step_s},
          {"backward_s", scaling.step.backward_s},
          {"backward_from", scaling.backward_from},
          {"rows", rows},
          {"assumptions", scaling_assumptions(scaling)}};
}

}  // namespace trainctl::report
