#include "base/machine/resource_usage.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "report/diagnosis/bottleneck_rules.hpp"
#include "report/text/format.hpp"

namespace trainctl::report {
namespace {

constexpr double kNotableStall = 0.05;  // fraction of stalls

std::string percent(double share) { return percent_text(share) + " %"; }

/// The evidence in order of output.
class List {
 public:
  explicit List(std::string_view cause) : cause_(cause) {}

  /// Adds evidence, which is shown if it supports one of the `causes`, separated by spaces.
  void add(Evidence evidence, std::string_view causes = {}) {
    for (const std::string& each : split(causes, ' '))
      evidence.in_summary = evidence.in_summary || (!each.empty() && each == cause_);
    all_.push_back(std::move(evidence));
  }
  [[nodiscard]] std::vector<Evidence> take() { return std::move(all_); }

 private:
  std::string cause_;
  std::vector<Evidence> all_;
};

const char* words_of(BottleneckKind part, const BottleneckContext& context) {
  constexpr std::array kWords{
      "other processes",         "waiting for batches", "converting batches",
      "waiting for other ranks", "checkpoints",         "forward and backward",
      "the optimizer",           "validation",          "other work between the parts of a step",
      "the largest part"};
  if (part == BottleneckKind::transfer && context.on_gpu) return "copying batches";
  return kWords.at(static_cast<std::size_t>(part));
}

void add_time(const BottleneckInputs& facts, List& list) {
  const events::Timing& timing = facts.timing;
  const double share = facts.part_s / timing.wall_s;
  list.add({"part_share", share, "share",
            fmt::format("{}: {} of the epoch time", words_of(facts.part, facts.context),
                        percent(share))});
  const double batches = facts.batches();
  if (batches < 1) return;
  const bool input = facts.part == BottleneckKind::input;
  const double wait_s = timing.data_wait_s / batches;
  list.add({"data_wait_step", wait_s, "s",
            fmt::format("each step waits {} for its batch", human_duration(wait_s)), input});
  const double training_s = timing.training_s();
  const double step_s = training_s - timing.data_wait_s;
  const double samples = facts.samples();
  if (!(step_s > 0)) return;
  list.add({"step_rate", samples / step_s, "samples/s",
            fmt::format("the training step alone could process {} samples/s",
                        rate_text(samples / step_s)),
            input});
  // Training never waits for the loader, so the loader may be faster than this rate.
  const int workers = facts.context.num_workers;
  const double made_in_s = workers == 0 ? timing.data_wait_s : training_s;
  if (made_in_s > 0 && (input || workers == 0)) {
    const double rate = samples / made_in_s;
    list.add({"loader_rate", rate, "samples/s",
              fmt::format("the loader delivers {} samples/s with {} worker{}", rate_text(rate),
                          workers, plural(workers)),
              input});
  }
}

void add_checkpoints(const BottleneckInputs& facts, List& list) {
  const auto& every = facts.context.levers.checkpoint_every_steps;
  if (!every) return;
  list.add({"checkpoint_every_n_steps", static_cast<double>(*every), "steps",
            fmt::format("a checkpoint every {}",
                        *every == 1 ? "step" : with_thousands(*every) + " steps")},
           "saved_too_often saved_in_the_step");
}

void add_cores(const BottleneckInputs& facts, List& list) {
  const BottleneckContext& context = facts.context;
  const int cores = context.cores();
  if (!(facts.timing.cpu_percent > 0)) return;
  const double busy = facts.timing.cpu_percent / 100;
  std::string text = fmt::format("{:.1f} cores are busy", busy);
  if (cores > 0)
    text = fmt::format("{:.1f} of {} core{} busy", busy, cores, cores == 1 ? " is" : "s are");
  constexpr const char* kCauses =
      "slow_disk slow_source no_workers few_workers slow_decode threads_oversubscribed "
      "spinning_threads few_threads";
  list.add({"cpu_cores", busy, "cores", text}, kCauses);
  if (context.num_threads > 0)
    list.add(
        {"num_threads", static_cast<double>(context.num_threads), "threads",
         fmt::format("{} thread{} per rank", context.num_threads, plural(context.num_threads))},
        "threads_oversubscribed spinning_threads");
}

void add_loader_cores(const events::Usage& usage, List& list) {
  if (!usage.loader_cores || usage.loader_threads == 0) return;
  list.add({"loader_cores", *usage.loader_cores, "cores",
            fmt::format("{} loader thread{} keep{} {:.1f} cores busy", usage.loader_threads,
                        plural(usage.loader_threads), usage.loader_threads == 1 ? "s" : "",
                        *usage.loader_cores)},
           "few_workers slow_decode slow_disk slow_source workers_oversubscribed spinning_threads");
}

/// A fraction of the time or of the cores that the kernel reports.
struct ShareEvidence {
  const char* name;
  std::optional<double> events::Usage::*share;
  const char* text;
  const char* causes;  // the causes that it supports from `least` on
  double least = 0;
  const char* causes_below = "";
};
using events::Usage;
constexpr std::array kShares{
    ShareEvidence{"outside_cores", &Usage::outside_cores, "other processes use {} of the cores",
                  "cores_taken threads_oversubscribed workers_oversubscribed", kNotableOutsideShare,
                  "cores_taken"},
    ShareEvidence{"stolen_cores", &Usage::stolen_cores,
                  "the hypervisor withholds {} of the CPU time (steal)", "cores_taken",
                  kNotableStall},
    ShareEvidence{"idle_cores", &Usage::idle_cores, "the cores are idle {} of the time",
                  "cores_taken few_threads"},
    ShareEvidence{"core_wait", &Usage::core_wait,
                  "runnable threads waited for a core {} of the time", "cores_taken",
                  kNotableStall},
    ShareEvidence{"cpu_stalled", &Usage::cpu_stalled, "threads waited for a core {} of the time",
                  "threads_oversubscribed workers_oversubscribed cpu_throttled", kNotableStall},
    ShareEvidence{"io_stalled", &Usage::io_stalled, "threads waited for a disk {} of the time",
                  "slow_disk", kNotableStall},
    ShareEvidence{"memory_stalled", &Usage::memory_stalled,
                  "threads waited for memory {} of the time", "memory_pressure", kNotableStall},
    ShareEvidence{"throttled", &Usage::throttled, "the CPU quota was used up in {} of its periods",
                  "cpu_throttled threads_oversubscribed", kNotableStall}};

void add_shares(const Usage& usage, List& list) {
  for (const ShareEvidence& each : kShares) {
    if (const auto& share = usage.*each.share)
      list.add({each.name, *share, "share", fmt::format(fmt::runtime(each.text), percent(*share))},
               *share >= each.least ? each.causes : each.causes_below);
  }
  list.add({"involuntary_switches", usage.involuntary_switches_s, "1/s",
            fmt::format("{} involuntary context switches per second",
                        rate_text(usage.involuntary_switches_s))},
           "threads_oversubscribed workers_oversubscribed");
}

void add_memory(const BottleneckInputs& facts, const events::Usage& usage, List& list) {
  list.add({"major_faults", usage.major_faults_s, "1/s",
            fmt::format("{} major page faults per second", rate_text(usage.major_faults_s))},
           "memory_pressure");
  if (usage.memory_taken)
    list.add({"memory_taken", *usage.memory_taken, "share",
              fmt::format("{} of the memory is in use", percent(*usage.memory_taken))},
             "memory_pressure");
  list.add({"read", facts.timing.read_mb_s, "MB/s",
            fmt::format("{:.1f} MB/s are read from disk", facts.timing.read_mb_s)},
           "slow_disk");
}

void add_gpu(const BottleneckInputs& facts, const events::Usage& usage, List& list) {
  if (facts.timing.gpu_util)
    list.add({"gpu_util", *facts.timing.gpu_util / 100, "share",
              fmt::format("the GPU is busy {} of the time", percent(*facts.timing.gpu_util / 100))},
             "forced_sync many_launches small_steps");
  if (usage.gpu_power_w)
    list.add({"gpu_power", *usage.gpu_power_w, "W",
              usage.gpu_power_limit_w ? fmt::format("the GPU draws {:.0f} of {:.0f} W",
                                                    *usage.gpu_power_w, *usage.gpu_power_limit_w)
                                      : fmt::format("the GPU draws {:.0f} W", *usage.gpu_power_w)},
             "gpu_throttled");
  if (usage.pcie_mb_s)
    list.add({"pcie", *usage.pcie_mb_s, "MB/s",
              fmt::format("{} MB/s over PCIe", rate_text(*usage.pcie_mb_s))},
             "large_copies unpinned_memory");
}

void add_ranks(const BottleneckInputs& facts, List& list) {
  const auto& last = facts.context.straggler;
  if (last) {
    list.add({"straggler_slowdown", last->slowdown, "share",
              fmt::format("rank {}{} takes {} longer than the median rank", last->rank,
                          last->host.empty() ? "" : " on " + printable(last->host),
                          percent(last->slowdown))},
             "slow_rank slow_loading_rank");
    list.add({"straggler_data_wait", last->data_wait_s, "s",
              fmt::format("rank {} waits {} per step for its batch", last->rank,
                          human_duration(last->data_wait_s))},
             "slow_loading_rank");
  }
  if (facts.context.overlap)
    list.add({"overlap", *facts.context.overlap, "share",
              fmt::format("{} of the all-reduce overlaps the backward pass",
                          percent(*facts.context.overlap))},
             "late_exchange slow_link");
}

struct Question {
  BottleneckKind part;
  const char* name;
  const char* text;
};

static_assert(kNotableWait == 0.15 && kNotableWork == 0.40 && kNotableEvaluation == 1.0 / 3);
constexpr std::array kQuestions{
    Question{BottleneckKind::input, "input",
             "Does the largest wait take 15 % of the time or more, and is it the wait for batches "
             "(`data`)?"},
    Question{BottleneckKind::transfer, "transfer",
             "Is it the copy to the device (`h2d`; on a CPU for `convert`)?"},
    Question{BottleneckKind::communication, "communication",
             "Is it the wait for other ranks (`all-reduce`)?"},
    Question{BottleneckKind::checkpoint, "checkpoint", "Is it checkpointing?"},
    Question{BottleneckKind::evaluation, "evaluation",
             "Otherwise: does validation take a third of the time or more?"},
    Question{
        BottleneckKind::compute, "compute",
        "Does the largest part of the work take 40 % or more, and is it forward and backward?"},
    Question{BottleneckKind::optimizer, "optimizer", "Is it the optimizer?"},
    Question{BottleneckKind::host, "host", "Is it the time between them (`other`)?"},
    Question{BottleneckKind::balanced, "balanced", "Otherwise, no part dominates."}};

constexpr const char* kHead = R"(# Bottlenecks

At the end, every training run reports its bottleneck, the numbers that show it, the speedup that a perfect loader would give, and the one
key to change, if any. The summary shows the most important part, and `bottleneck` in `result.json` (and in `run --json`) has all of it.
`trainctl explain --bottlenecks` prints this page from the same rules. [`trainctl tune`](../how-to/tune.md) tries the fixes and
measures their gain.

| field of `bottleneck` | what |
| --- | --- |
| `verdict` | the bottleneck: `machine_busy`, `input_bound`, `transfer_bound`, `communication_bound`, `checkpoint_bound`, `evaluation_bound`, `compute_bound`, `optimizer_bound`, `host_bound` or `balanced` |
| `cause` | the row of the table below that holds; `diagnosis` is its sentence |
| `share` | share of the epoch time that the bottleneck takes, 0 to 1 |
| `gain` | of the advice, as a factor of the whole run: `low`, `high` (null: no bound is known), `replayed` (steps were timed with the change), `text` |
| `headroom` | the upper end of `gain`, which the advice does not exceed; null: no bound is known |
| `perfect_loader` | `speedup`, `step_s` (of a batch with a loader that always has the next one), `now_step_s` (as it was), `replayed_steps`, `text`; null where no batch was counted |
| `setting` | the override to try, which the experiment accepts; null if no setting helps |
| `advice` | one sentence, with the setting; a proposal to be measured |
| `checks` | batch size, threads, precision and anomaly checks: `key`, `compared`, `gain` of the alternative (null: a rule excludes it), `text` |
| `evidence` | a list of `name`, `value`, `unit`, `text` |

Gains are intervals. Without a replay the upper end is the time that the change can remove: a batch of n times the rows gains
at most n times, and an effect that no measurement bounds, such as more devices or threads that take cores from one another, has no upper end. At the end of a
run of one process on a CPU the steps are replayed with one setting changed at a time: all cores or one thread, 2, 4 or 8 times the rows, bf16
where the CPU has instructions for it, and without `trainer.detect_anomaly`; each takes at most 1 % of the training, two seconds at most. A
replay counts with a margin of 15 %. The summary names the settings that were not compared, and claims nothing about them.

`machine_busy` comes first: when processes outside of the run take 10 % of the cores while the run's threads, ready to run, wait for a core
10 % of the time, or the host withholds 10 % of the cores' time, all times are too long. `share` is then the share of the cores' time that
others take. A core that others use, but that the run does not need (as in a run of one thread), counts neither as contention
nor as idle. Threads or loader workers
beyond the number of cores wait for one another: they are the cause, and what others take is among the evidence. `otherwise` is the bottleneck of
the same times if no other process had run.

The bottleneck is computed from the epochs after the first, or the first if it is the only one. Shares of the time are those of rank 0. What the machine did comes
from the kernel: pressure and CPU quota of the innermost control group, else of the machine, page faults, lost cores; from NVML on a GPU.
Values that the machine does not report are omitted.

The gain of a perfect loader is measured by a replay ([why](../adr/0016-replayed-batch.md)). After training and saving, a run of one process on
a CPU stops its loader and repeats forward and backward of its last batch, for at most 1 % of the training and about half a second. In the
average step these times replace those of the two passes, and waits count as zero. So the estimate also has the time that threads of the
loader took from the step by computing. No result of the run depends on the replay. The replay is omitted with several ranks, on a GPU, in a run
that is short or was stopped, and with `trainer.detect_anomaly`: then the measured steps count without their waits. Below
1.05x the summary says that data loading is not the bottleneck.
)";

constexpr const char* kTree = R"(
## The decision tree

Ask these questions in this order: the first one with the answer yes gives the bottleneck.

)";

constexpr const char* kTable = R"(
## Symptoms, diagnoses, fixes

A symptom counts if the part in the first column takes the time. The last column contains the bottleneck (`verdict` in `result.json`).

)";

std::string code(std::string_view key) { return fmt::format("`{}`", key); }

/// Returns "`a`, `b`"; "-" if there are no keys.
std::string keys_of(const Rule& rule) {
  if (std::string_view(rule.key).empty()) return "-";
  std::vector<std::string> keys = split(rule.key, ',');
  for (std::string& key : keys) key = code(key.substr(key.find_first_not_of(' ')));
  return join(keys, ", ");
}

std::string verdict_of(const Rule& rule) {
  if (rule.verdict) return code(name_of(*rule.verdict));
  return rule.part ? code(name_of(*rule.part)) : "that of the part";
}

std::vector<Rule> rules_of(std::optional<BottleneckKind> part) {
  std::vector<Rule> found;
  for (const Rule& rule : rules()) {
    if (rule.part == part) found.push_back(rule);
  }
  return found;
}

/// Returns "    * if symptom: cause; fix (KEY)".
std::string branch_of(const Rule& rule, std::size_t of_part) {
  const std::string symptom = rule.symptom;
  std::string why = symptom.empty() ? "else: " : "if " + symptom + ": ";
  if (of_part == 1 && symptom.empty()) why.clear();
  const std::string_view fix = rule.fix;
  const std::string change =
      fix.empty() ? "nothing to fix"
                  : fmt::format("{} ({})", fix, keys_of(rule) == "-" ? "no key" : keys_of(rule));
  return fmt::format("    * {}**{}**; {}\n", why, rule.cause, change);
}

std::string branches_of(std::optional<BottleneckKind> part) {
  const std::vector<Rule> found = rules_of(part);
  std::string text;
  for (const Rule& rule : found) text += branch_of(rule, found.size());
  return text;
}

std::string tree() {
  std::string text = kTree;
  text += "1. Is the machine short of a resource, or does a setting slow down every part?\n";
  text += branches_of(std::nullopt);
  int number = 2;
  for (const Question& question : kQuestions) {
    text += fmt::format("{}. {} Then `{}`:\n", number++, question.text, name_of(question.part));
    text += branches_of(question.part);
  }
  return text;
}

std::string row_of(const char* part, const Rule& rule) {
  const std::string_view symptom = rule.symptom;
  const std::string_view fix = rule.fix;
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", part,
                     symptom.empty() ? "none of those above" : symptom, code(rule.cause),
                     rule.diagnosis, fix.empty() ? "-" : fix, keys_of(rule), verdict_of(rule));
}

std::string table() {
  std::string text = kTable;
  text += "| part | symptom | cause | diagnosis | fix | key | bottleneck |\n";
  text += "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Rule& rule : rules_of(std::nullopt)) text += row_of("any", rule);
  for (const Question& question : kQuestions) {
    for (const Rule& rule : rules_of(question.part)) text += row_of(question.name, rule);
  }
  return text;
}

}  // namespace

std::vector<Evidence> evidence_of(const BottleneckInputs& facts, const Rule& rule) {
  List list(rule.cause);
  add_time(facts, list);
  add_checkpoints(facts, list);
  add_ranks(facts, list);
  add_cores(facts, list);
  if (const auto& usage = facts.context.usage) {
    add_loader_cores(*usage, list);
    add_shares(*usage, list);
    add_memory(facts, *usage, list);
    add_gpu(facts, *usage, list);
  }
  return list.take();
}

std::string bottlenecks_page() { return kHead + tree() + table(); }

Json bottlenecks_json() {
  return json_list(rules(), [](const Rule& rule) {
    return joined({{{"part", or_null(rule.part, name_of)},
                    {"cause", rule.cause},
                    {"verdict", or_null(rule.verdict, name_of)}},
                   JSON_FIELDS(rule, symptom, diagnosis, fix, key)});
  });
}

}  // namespace trainctl::report
