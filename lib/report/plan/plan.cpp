#include "report/plan/plan.hpp"

#include "base/numbers.hpp"
#include "report/plan/model_plan.hpp"
#include "report/text/table.hpp"

namespace trainctl::report {
namespace {

using Bytes = std::function<std::uint64_t(const PlannedSplit&)>;
using Cell = std::function<std::string(const PlannedSplit&)>;

std::string size_text(std::uint64_t bytes) { return bytes == 0 ? "-" : human_bytes(bytes); }

std::string times_text(int count, std::uint64_t bytes) {
  if (count <= 1 || bytes == 0) return size_text(bytes);
  return fmt::format("{} x {}", count, size_text(bytes));
}

std::uint64_t sum(const Plan& plan, const Bytes& bytes) {
  std::uint64_t all = 0;
  for (const PlannedSplit& split : plan.splits) all += bytes(split);
  return all;
}

/// A part of the memory: its bytes in a split, and an optional text for them.
struct MemoryPart {
  const char* name;
  Bytes bytes;
  Cell cell = {};
};

/// Returns one row per part, with columns for the splits, one process and all processes. Parts that
/// no split has are omitted; mapped files count once for all processes.
Table memory_table(const Plan& plan) {
  using Split = PlannedSplit;
  const MemoryPart parts[] = {
      {"data set", &Split::dataset_bytes},
      {"cache", &Split::cache_bytes,
       [](const Split& split) {
         return split.cache_bytes == 0 ? "-" : split.cache + " " + size_text(split.cache_bytes);
       }},
      {"prepared batches", &Split::ring_bytes,
       [](const Split& split) { return times_text(split.slots, split.slot_bytes); }},
      {"sample orders", &Split::order_bytes},
      {"scratch of threads", &Split::all_scratch_bytes,
       [](const Split& split) { return times_text(split.threads, split.scratch_bytes); }},
      {"read ahead", &Split::ahead_bytes},
      {"transfers", &Split::transfer_bytes},
      {"total", &Split::total},
      {"mapped files", &Split::mapped_bytes},
      {"images on the GPU", &Split::device_bytes}};
  std::vector<Column> columns{left("memory")};
  for (const Split& split : plan.splits) columns.push_back(split.name);
  columns.push_back("per process");
  if (plan.ranks_here > 1) columns.push_back(fmt::format("{} processes", plan.ranks_here));
  Table table(columns);
  for (const MemoryPart& part : parts) {
    const std::uint64_t all = sum(plan, part.bytes);
    if (all == 0) continue;
    const bool is_shared = part.name == std::string_view("mapped files");
    std::vector<std::string> cells{part.name};
    for (const Split& split : plan.splits)
      cells.push_back(part.cell ? part.cell(split) : size_text(part.bytes(split)));
    cells.push_back(is_shared ? "shared" : size_text(all));
    if (plan.ranks_here > 1)
      cells.push_back(is_shared ? "shared"
                                : size_text(all * static_cast<std::uint64_t>(plan.ranks_here)));
    table.add(std::move(cells));
  }
  return table;
}

std::string processes_text(const Plan& plan) {
  if (plan.ranks == 1) return "1 process";
  const std::string text = fmt::format("{} processes", plan.ranks);
  return plan.ranks_here < plan.ranks ? text + fmt::format(", {} on this machine,", plan.ranks_here)
                                      : text;
}

std::string headline(const Plan& plan) {
  std::string text = fmt::format("{}: {} on {} with {}, {} per step", printable(plan.config),
                                 processes_text(plan), plan.device, counted(plan.cores, "CPU core"),
                                 counted(plan.batch_size * plan.ranks * plan.accumulate, "sample"));
  const std::string each = with_thousands(plan.batch_size);
  if (plan.accumulate > 1) {
    text += fmt::format(" ({} batches of {}{})", plan.accumulate, each,
                        plan.ranks > 1 ? " in each process" : "");
  } else if (plan.ranks > 1) {
    text += fmt::format(" ({} in each process)", each);
  }
  text += fmt::format(", {} per epoch", counted(plan.steps_per_epoch, "step"));
  if (plan.epochs) text += ", " + counted(*plan.epochs, "epoch");
  return text + "\n";
}

std::string workers_text(const Plan& plan) {
  const std::string each = plan.ranks > 1 ? " in each process" : "";
  std::string text =
      plan.auto_workers ? fmt::format("auto: measured at startup, at most {}{}", plan.workers, each)
                        : counted(plan.workers, "thread") + each;
  if (!plan.auto_workers && plan.workers == 0) text = "none: the training thread loads its batches";
  if (plan.workers == 0) return text;
  text += plan.auto_prefetch
              ? fmt::format("; prefetch factor auto, at most {}", plan.prefetch_factor)
              : fmt::format("; prefetch factor {}", plan.prefetch_factor);
  return plan.auto_workers || plan.auto_prefetch ? text + " (the table assumes the maximum)" : text;
}

std::string threads_by_step(const std::vector<PlannedProbe::Workers>& by_step) {
  constexpr std::size_t kMostShown = 4;
  if (by_step.size() == 1) return "auto uses no workers";
  const auto least = [&](std::size_t i) { return human_duration(by_step[i].least_step_s); };
  std::string text =
      fmt::format("auto uses no workers if a training step takes at least {}", least(0));
  const std::size_t shown = std::min(by_step.size(), kMostShown) - 1;
  for (std::size_t i = 1; i < shown; ++i)
    text += fmt::format(", {} from {} to {}", counted(by_step[i].number, "worker"), least(i),
                        least(i - 1));
  const int low = by_step[shown].number;
  const int high = by_step.back().number;
  return text + fmt::format(", {} below {}",
                            low == high ? counted(high, "worker")
                                        : fmt::format("{} to {} workers", low, high),
                            least(shown - 1));
}

std::string probe_text(const PlannedProbe& probe) {
  std::string text = fmt::format("one thread loads a batch in {}", human_duration(probe.batch_s));
  if (probe.spread > 1)
    text += fmt::format("; the slowest batch of 100 takes {:.2f} times the mean", probe.spread);
  return text + fmt::format("; prefetch factor {}", probe.prefetch_factor);
}

std::string available_text(const Plan& plan) {
  const std::string caches =
      plan.cache_budget == 0 ? "none for caches"
                             : fmt::format("at most {} for caches", size_text(plan.cache_budget));
  return fmt::format("{}: {}, and at most {} for prepared batches", size_text(plan.available_bytes),
                     caches, size_text(plan.available_bytes / 2));
}

std::string graphs_text(const std::string& obstacle) {
  if (obstacle.empty()) return "steps are captured as CUDA graphs";
  return "steps are not captured as CUDA graphs: " + printable(obstacle);
}

Json graphs_json(const std::string& obstacle) {
  return {{"captured", obstacle.empty()}, {"obstacle", or_null(obstacle)}};
}

/// Returns what reduces the larger consumer: the model's step, or loading.
std::string advice_text(const Plan& plan) {
  const bool on_host = plan.model && plan.model->device == "cpu";
  const auto ranks = static_cast<std::uint64_t>(plan.ranks_here);
  if (!on_host || step_bytes(*plan.model) * ranks <= plan.node_bytes())
    return "lower loader.batch_size, loader.num_workers or dataset.cache.budget";
  std::string text =
      "lower loader.batch_size and raise trainer.accumulate_grad_batches to keep the global batch "
      "size";
  if (!plan.recomputes) text += ", or set trainer.activation_checkpointing=blocks";
  return text;
}

std::string verdict_text(const Plan& plan, const Style& style) {
  const std::string verdict = verdict_of(plan);
  const Ink ink = verdict == "refused" ? Ink::red : verdict == "exceeds" ? Ink::yellow : Ink::green;
  const std::string word = paint(verdict == "shrinks" ? "fits" : verdict, ink, style);
  if (verdict == "refused") return word + ": a run would fail with exit code 11: " + plan.refusal;
  const std::string needed = size_text(plan.all_bytes());
  const std::string available = size_text(plan.available_bytes);
  const bool exceeds = verdict == "exceeds";
  if (!exceeds && !plan.model)
    return fmt::format("{}: data loading needs {} of the {} available", word, needed, available);
  return fmt::format("{}: {} needed, {} available{}", word, needed, available,
                     exceeds ? "; " + advice_text(plan) : "");
}

Json split_json(const PlannedSplit& split) {
  return joined({JSON_FIELDS(split, name, dataset, samples, dataset_bytes, mapped_bytes),
                 {{"cache", {{"tier", split.cache}, {"bytes", split.cache_bytes}}},
                  {"device_bytes", split.device_bytes},
                  {"slots", {{"number", split.slots}, {"bytes_each", split.slot_bytes}}},
                  {"order_bytes", split.order_bytes},
                  {"scratch", {{"threads", split.threads}, {"bytes_each", split.scratch_bytes}}}},
                 JSON_FIELDS(split, ahead_bytes, transfer_bytes),
                 {{"total_bytes", split.total()}}});
}

Json probe_json(const PlannedProbe& probe) {
  const auto workers = json_list(probe.workers, [](const PlannedProbe::Workers& some) {
    return Json{{"least_step_s", some.least_step_s}, {"workers", some.number}};
  });
  return {{"batch_s", probe.batch_s},
          {"batch_spread", probe.spread},
          {"prefetch_factor", probe.prefetch_factor},
          {"taken_cores", probe.taken_cores},
          {"auto_workers", workers.empty() ? Json(nullptr) : workers}};
}

}  // namespace

std::string contention_warning(const Plan& plan) {
  const double step = plan.model ? plan.model->taken_cores : 0;
  const double batch = plan.probe ? plan.probe->taken_cores : 0;
  if (!(std::max(step, batch) > 0)) return "";
  const char* what = !(batch > 0)  ? "the step was timed"
                     : !(step > 0) ? "batches were loaded for the probe"
                                   : "batches and the step were timed";
  return fmt::format(
      "warning: other processes used {:.0f} % of the cores while {}, so times are too long; run "
      "plan again on an idle machine\n",
      100 * std::max(step, batch), what);
}

std::uint64_t Plan::rank_bytes() const {
  return sum(*this, [](const PlannedSplit& split) { return split.total(); });
}

std::uint64_t Plan::node_bytes() const {
  return rank_bytes() * static_cast<std::uint64_t>(ranks_here);
}

std::uint64_t Plan::all_bytes() const {
  return node_bytes() + (model ? host_bytes(*model, ranks_here) : 0);
}

const char* verdict_of(const Plan& plan) {
  if (!plan.refusal.empty()) return "refused";
  if (plan.all_bytes() > plan.available_bytes) return "exceeds";
  return plan.shrunk.empty() ? "fits" : "shrinks";
}

std::string plan_text(const Plan& plan, const Style& style) {
  std::string text = headline(plan) + "\n";
  text += to_text(memory_table(plan), style) + "\n";
  if (plan.model) text += model_table_text(plan, style) + "\n";
  for (const PlannedSplit& split : plan.splits)
    text +=
        plan_fact(split.name,
                  fmt::format("{} of {}", counted(split.samples, "sample"), split.dataset), style);
  text += plan_fact("workers", workers_text(plan), style);
  if (plan.probe) text += plan_fact("probe", probe_text(*plan.probe), style);
  if (plan.probe && !plan.probe->workers.empty())
    text += plan_fact("", threads_by_step(plan.probe->workers), style);
  for (const auto& [label, words] : model_facts(plan)) text += plan_fact(label, words, style);
  if (plan.no_graphs) text += plan_fact("graphs", graphs_text(*plan.no_graphs), style);
  text += plan_fact("available", available_text(plan), style);
  for (const std::string& change : plan.shrunk) text += plan_fact("shrinks", change, style);
  text += plan_fact("result", verdict_text(plan, style), style);
  if (!plan.model)
    text += plan_fact(
        "", "not included: the model, its optimizer, and libtorch (0.5 GiB per process)", style);
  if (plan.fake) text += "\n" + fake_ranks_text(*plan.fake, style);
  if (plan.scaling) text += "\n" + scaling_text(*plan.scaling, style);
  if (!plan.scaling_unavailable.empty())
    text +=
        "\n" + plan_fact("scaling", "not estimated: " + one_line(plan.scaling_unavailable), style);
  return text;
}

Json plan_document(const Plan& plan) {
  return joined(
      {{{"schema", "trainctl.plan/2"},
        {"config", plan.config},
        {"verdict", verdict_of(plan)},
        {"refusal", or_null(plan.refusal)}},
       JSON_FIELDS(plan, shrunk, device, ranks, ranks_here, cores, batch_size),
       {{"global_batch", plan.batch_size * plan.ranks},
        {"samples_per_step", plan.batch_size * plan.ranks * plan.accumulate},
        {"steps_per_epoch", plan.steps_per_epoch},
        {"epochs", or_null(plan.epochs)},
        {"num_workers", {{"auto", plan.auto_workers}, {"most", plan.workers}}},
        {"prefetch_factor", {{"auto", plan.auto_prefetch}, {"most", plan.prefetch_factor}}},
        {"probe", or_null(plan.probe, probe_json)},
        {"available_bytes", plan.available_bytes},
        {"cache_budget_bytes", plan.cache_budget},
        {"splits", json_list(plan.splits, split_json)},
        {"rank_bytes", plan.rank_bytes()},
        {"node_bytes", plan.node_bytes()},
        {"all_bytes", plan.all_bytes()},
        {"model", model_json(plan)},
        {"no_model", or_null(plan.no_model)},
        {"cuda_graphs", or_null(plan.no_graphs, graphs_json)},
        {"fake_ranks", or_null(plan.fake, fake_ranks_json)},
        {"scaling", or_null(plan.scaling,
                            [](const PlannedScaling& scaling) { return scaling_json(scaling); })},
        {"scaling_unavailable", or_null(plan.scaling_unavailable)}}});
}

}  // namespace trainctl::report
