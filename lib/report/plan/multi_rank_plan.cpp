#include "report/plan/multi_rank_plan.hpp"

#include "base/numbers.hpp"
#include "report/text/table.hpp"

#include <numeric>
#include <set>

namespace trainctl::report {
namespace {

constexpr std::size_t kMostBuckets = 6;

std::int64_t gradient_bytes(const SyncedStep& step) {
  return std::accumulate(step.buckets.begin(), step.buckets.end(), std::int64_t{0});
}

std::string gradients_text(const SyncedStep& step) {
  std::string text = human_bytes(gradient_bytes(step));
  if (step.buckets.size() < 2) return text + " in one bucket";
  text += fmt::format(" in {} buckets: ", step.buckets.size());
  for (std::size_t i = 0; i < std::min(step.buckets.size(), kMostBuckets); ++i)
    text += (i > 0 ? ", " : "") + human_bytes(step.buckets[i]);
  return step.buckets.size() > kMostBuckets ? text + ", ..." : text;
}

std::string link_line(const PlannedScaling& scaling) {
  return fmt::format("{} per message, {} ({})", latency_text(scaling.link.latency_s),
                     bandwidth_text(scaling.link.bytes_per_s), printable(scaling.link_from));
}

std::string shared_line(const SharedStep& shared) {
  return fmt::format(
      "the step of {} ranks was timed with {} parallel processes on the cores of this machine, "
      "with {} thread{} each; in the other rows each rank has separate cores",
      shared.ranks, shared.ranks, shared.num_threads, plural(shared.num_threads));
}

std::string step_text(const EstimatedStep& row) {
  const std::string step = human_duration(row.step_s);
  if (!row.measured) return step;
  return fmt::format("{} ({} to {})", step, human_duration(row.measured->low_s),
                     human_duration(row.measured->high_s));
}

std::string alone_line(const PlannedScaling& scaling) {
  return fmt::format("{} for one rank on {}, of which the backward pass takes {} ({})",
                     human_duration(scaling.step.step_s), printable(scaling.device),
                     human_duration(scaling.step.backward_s), scaling.backward_from);
}

std::int64_t samples_per_step(const FakeRanks& fake) {
  return fake.batch_size * fake.ranks * fake.accumulate;
}

std::string length_text(const FakeRanks& fake) {
  std::string text = counted(samples_per_step(fake), "sample") +
                     " per step: " + with_thousands(fake.batch_size) + " on each rank";
  if (fake.accumulate > 1) text += fmt::format(" in each of {} batches", fake.accumulate);
  text += "; " + counted(fake.steps_per_epoch, "step") + " per epoch";
  if (fake.epochs) text += ", " + counted(*fake.epochs, "epoch");
  if (fake.steps) text += ", " + counted(*fake.steps, "step") + " in all";
  return text;
}

std::string split_text(const RankSplit& split) {
  std::string text = counted(split.samples, "sample") + ", " +
                     counted(split.batches, "batch", "batches") +
                     " on each rank; the last batch has ";
  text += split.last_least == split.last_most
              ? counted(split.last_most, "sample")
              : fmt::format("{} to {} samples", with_thousands(split.last_least),
                            with_thousands(split.last_most));
  text += fmt::format(" on each rank ({} in all)", with_thousands(split.last_batch));
  if (split.dropped > 0)
    text += "; " + counted(split.dropped, "sample is", "samples are") + " dropped (drop_last)";
  return text;
}

std::string buckets_text(const std::vector<RankBucket>& buckets) {
  std::string text = counted(static_cast<std::int64_t>(buckets.size()), "bucket") + ": ";
  for (std::size_t i = 0; i < std::min(buckets.size(), kMostBuckets); ++i)
    text += fmt::format("{}{} of {} gradient{}", i > 0 ? ", " : "", human_bytes(buckets[i].bytes),
                        buckets[i].parameters, plural(buckets[i].parameters));
  return buckets.size() > kMostBuckets ? text + ", ..." : text;
}

std::string memory_text(const FakeRanks& fake) {
  const bool on_cpu = fake.model->device == "cpu";
  return fmt::format("{} for a step on {}, {} of it optimizer state; {} of host memory for loading",
                     human_bytes(rank_step_bytes(fake, false)), on_cpu ? "the CPU" : "the GPU",
                     human_bytes(fake.model->optimizer_bytes), human_bytes(fake.loading_bytes));
}

std::string sharded_text(const FakeRanks& fake) {
  const std::int64_t kept = rank_step_bytes(fake, true);
  const std::int64_t saved = rank_step_bytes(fake, false) - kept;
  return fmt::format("{} if the optimizer state is sharded ({}): {} less", human_bytes(kept),
                     fake.shards_optimizer ? "as set by distributed.type" : "zero1",
                     human_bytes(saved));
}

Json rank_split_json(const RankSplit& split) {
  return joined({JSON_FIELDS(split, name, samples, batches),
                 {{"last_batch",
                   {{"samples", split.last_batch},
                    {"min_per_rank", split.last_least},
                    {"max_per_rank", split.last_most},
                    {"ranks_without", split.idle_ranks}}},
                  {"dropped", split.dropped}}});
}

Json memory_json(const FakeRanks& fake) {
  if (!fake.model) return nullptr;
  return joined({{{"step_bytes", rank_step_bytes(fake, false)},
                  {"optimizer_bytes", fake.model->optimizer_bytes},
                  {"step_bytes_zero1", rank_step_bytes(fake, true)}},
                 JSON_FIELDS(fake, shards_optimizer, loading_bytes)});
}

}  // namespace

std::string plan_fact(const std::string& label, const std::string& text, const Style& style) {
  return fact_line(label, text, style, 11);
}

std::vector<EstimatedStep> estimate_scaling(const SyncedStep& step, const Link& link, int ranks) {
  std::vector<EstimatedStep> rows;
  for (const int number : std::set{1, ranks, 64, 1024})
    rows.push_back(estimate_step(step, link, number));
  return rows;
}

void use_measured(const SharedStep& shared, const SyncedStep& alone,
                  std::vector<EstimatedStep>& rows) {
  for (EstimatedStep& row : rows) {
    if (row.ranks != shared.ranks || shared.step_s <= 0) continue;
    row.step_s = shared.step_s;
    row.exposed_s = shared.exposed_s;
    row.samples_per_s = static_cast<double>(alone.samples) * row.ranks / row.step_s;
    row.efficiency = alone.step_s / row.step_s;
    row.measured = shared.range;
  }
}

std::vector<std::string> scaling_assumptions(const PlannedScaling& scaling) {
  const SyncedStep& step = scaling.step;
  std::vector<std::string> all{
      "each rank has a separate device (or separate cores) like the one that was measured",
      "all-reduce uses one ring; with any number of ranks, its slowest connection is as fast as "
      "the 'link' above",
      "gradients become ready during the backward pass in proportion to their bytes",
      "no rank waits for data, all ranks are equally fast, and communication needs no compute",
      "weak scaling: the batch size per rank is constant, so the global batch size grows"};
  if (step.exchange == SyncKind::weights)
    all[2] = fmt::format(
        "local_sgd averages weights between steps, after every {}; a row shows the mean per step",
        step.every == 1 ? "step" : fmt::format("{} steps", step.every));
  if (step.exchange == SyncKind::gradients_and_weights)
    all.emplace_back(
        "zero1: weights are gathered after the step, not during it; the timed step updates all "
        "weights, but each of N ranks updates 1/N, so steps of several ranks are overestimated");
  if (step.batches > 1)
    all.emplace_back(
        "with gradient accumulation the step time is overestimated: N accumulated batches count as "
        "N measured steps, and each of these includes an optimizer step");
  if (scaling.shared) all.front() = shared_line(*scaling.shared);
  return all;
}

std::string scaling_text(const PlannedScaling& scaling, const Style& style) {
  Table table({"ranks", "samples/step", "exchange", "exposed", "step", "samples/s", "efficiency"});
  for (const EstimatedStep& row : scaling.rows)
    table.add({with_thousands(row.ranks), with_thousands(row.ranks * scaling.step.samples),
               human_duration(row.exchange_s), human_duration(row.exposed_s), step_text(row),
               rate_text(row.samples_per_s), percent_text(row.efficiency) + " %"});
  std::string text = to_text(table, style) + "\n";
  text += plan_fact("exchange", kRingFormula, style);
  text += plan_fact("exposed", "part of the exchange that the backward pass does not hide", style);
  text += plan_fact(scaling.step.exchange == SyncKind::weights ? "weights" : "gradients",
                    gradients_text(scaling.step), style);
  if (scaling.step.exchange == SyncKind::gradients_and_weights)
    text += plan_fact("weights", human_bytes(scaling.step.weight_bytes), style);
  text += plan_fact("link", link_line(scaling), style);
  text += plan_fact("step", alone_line(scaling), style);
  const char* label = "assumed";
  for (const std::string& assumption : scaling_assumptions(scaling)) {
    text += plan_fact(label, assumption, style);
    label = "";
  }
  return text;
}

Json scaling_json(const PlannedScaling& scaling) {
  const auto rows = json_list(scaling.rows, [&](const EstimatedStep& row) {
    const auto& range = row.measured;
    return joined({{{"ranks", row.ranks},
                    {"global_batch", row.ranks * scaling.step.samples / scaling.step.batches},
                    {"samples_per_step", row.ranks * scaling.step.samples}},
                   JSON_FIELDS(row, exchange_s, exposed_s, step_s),
                   {{"step_low_s", range ? Json(range->low_s) : Json(nullptr)},
                    {"step_high_s", range ? Json(range->high_s) : Json(nullptr)},
                    {"measured", range.has_value()}},
                   JSON_FIELDS(row, samples_per_s, efficiency)});
  });
  return {{"schema", "trainctl.scaling/2"},
          {"formula", kRingFormula},
          {"exchange", enum_name(scaling.step.exchange)},
          {"steps_per_exchange", scaling.step.every},
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

std::int64_t rank_step_bytes(const FakeRanks& fake, bool sharded) {
  if (!fake.model) return 0;
  const events::Measured& model = *fake.model;
  const std::int64_t optimizer = sharded ? fake.optimizer_share : model.optimizer_bytes;
  return model.weight_bytes + model.gradient_bytes + optimizer + model.average_bytes +
         model.activation_bytes + model.batch_bytes + model.kernel_bytes;
}

std::string fake_ranks_text(const FakeRanks& fake, const Style& style) {
  std::string text = plan_fact(fmt::format("{} ranks", fake.ranks), length_text(fake), style);
  for (const RankSplit& split : fake.splits)
    text += plan_fact(split.name, split_text(split), style);
  if (!fake.buckets.empty()) text += plan_fact("buckets", buckets_text(fake.buckets), style);
  if (fake.model) {
    text += plan_fact("per rank", memory_text(fake), style);
    text += plan_fact("", sharded_text(fake), style);
  }
  for (const std::string& note : fake.notes) text += plan_fact("note", printable(note), style);
  for (const std::string& problem : fake.problems)
    text +=
        plan_fact("ranks", paint("refused", Ink::red, style) + ": " + printable(problem), style);
  if (fake.problems.empty())
    text += plan_fact("ranks",
                      paint("ok", Ink::green, style) +
                          ": a check on this machine found no problem with this number of ranks",
                      style);
  return text;
}

Json fake_ranks_json(const FakeRanks& fake) {
  return {{"schema", "trainctl.fake_ranks/2"},
          {"ranks", fake.ranks},
          {"batch_size", fake.batch_size},
          {"accumulate_grad_batches", fake.accumulate},
          {"global_batch", fake.batch_size * fake.ranks},
          {"samples_per_step", samples_per_step(fake)},
          {"steps_per_epoch", fake.steps_per_epoch},
          {"epochs", or_null(fake.epochs)},
          {"steps", or_null(fake.steps)},
          {"splits", json_list(fake.splits, rank_split_json)},
          {"buckets", json_list(fake.buckets, JSON_OF(parameters, bytes))},
          {"memory", memory_json(fake)},
          {"problems", fake.problems},
          {"notes", fake.notes}};
}

}  // namespace trainctl::report
