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
             "Is the wait for batches (`data`) the largest wait, and at least 15 % of the time?"},
    Question{BottleneckKind::transfer, "transfer",
             "Is the copy to the device (`h2d`), or on a CPU the conversion of the batch "
             "(`convert`), the largest wait, and at least 15 % of the time?"},
    Question{BottleneckKind::communication, "communication",
             "Is the wait for other ranks (`all-reduce`) the largest wait, and at least 15 % of "
             "the time?"},
    Question{BottleneckKind::checkpoint, "checkpoint",
             "Is checkpointing the largest wait, and at least 15 % of the time?"},
    Question{BottleneckKind::evaluation, "evaluation",
             "Otherwise: does validation take a third of the time or more?"},
    Question{
        BottleneckKind::compute, "compute",
        "Are forward and backward the largest part of the work, and at least 40 % of the time?"},
    Question{BottleneckKind::optimizer, "optimizer",
             "Is the optimizer the largest part of the work, and at least 40 % of the time?"},
    Question{BottleneckKind::host, "host",
             "Is `other` the largest part of the work, and at least 40 % of the time?"},
    Question{BottleneckKind::balanced, "balanced", "Otherwise, no part dominates."}};

constexpr const char* kHead = R"(# Bottlenecks

At its end, every training run reports its bottleneck, the numbers that show it, the gain of a perfect loader, and the one key to change, if
any. The summary shows the main parts; `bottleneck` in `result.json` (and in `run --json`) contains all of them.
`trainctl explain --bottlenecks` prints this page from the rules that the program uses. [`trainctl tune`](../how-to/tune.md) tries the fixes
and measures their gain.

| field of `bottleneck` | meaning |
| --- | --- |
| `verdict` | the bottleneck: `machine_busy`, `input_bound`, `transfer_bound`, `communication_bound`, `checkpoint_bound`, `evaluation_bound`, `compute_bound`, `optimizer_bound`, `host_bound` or `balanced` |
| `cause`, `diagnosis` | the rule that applies, such as `few_workers`, and its text: the columns "cause" and "diagnosis" of the [table of rules](#symptoms-diagnoses-fixes) |
| `share` | the share of the wall time, 0 to 1, of the part that is the bottleneck. For `input_bound`, this is the time spent waiting for batches |
| `gain` | the expected speed-up of the whole run with the proposed setting, as an interval: `low` and `high` (2: twice as fast; null: no upper limit is known), `replayed` (true if steps were timed with the setting), `text` |
| `headroom` | the same number as `high` of `gain` |
| `perfect_loader` | the gain of a loader that never lets training wait: `speedup`, `step_s` (seconds per step with such a loader), `now_step_s` (seconds per step in this run), `replayed_steps` (how many steps were timed for it), `text`. null if the run measured no training step |
| `setting` | the override to try, which the experiment accepts. null if no setting helps |
| `advice` | one sentence that proposes the setting |
| `checks` | one entry each for batch size, threads, precision and anomaly detection: `key`, `compared` (true if the run timed another value, or no other value can help), `gain` of the other value, or null, and `text` |
| `evidence` | a list of `name`, `value`, `unit`, `text` |
| `otherwise` | with `machine_busy`: the bottleneck according to the same times if the load of other processes is ignored. Otherwise null |

A replay measures the gain of a setting: at the end of a run of one process on a CPU, a step is repeated with one setting changed at a time.
The changes are all cores or one thread, a batch 2, 4 or 8 times as large, bf16 if the CPU has instructions for it, and
`trainer.detect_anomaly: false`. Each replay takes at most 1 % of the training time and at most two seconds. `low` of a replayed gain
assumes that the replay was 15 % too fast. Without a replay, `high` is computed from the time that the setting could save at most: a batch n
times as large makes the run at most n times as fast. If nothing limits the gain, as with more devices, `high` is null. The summary names
the settings that were not compared.

The bottleneck is `machine_busy`, before any other, in two cases. Processes outside of the run use at least 10 % of the cores, and the run's
threads wait for a core at least 10 % of the time. Or the machine is virtual, and its host takes away at least 10 % of the CPU time (steal
time). All measured times are then too long, and `share` is the share of the CPU time that others use. Cores that the run does not need, as
in a run with one thread, are ignored. If the run itself has more threads or loader workers than cores, they wait for one another. The cause
is then `threads_oversubscribed` or `workers_oversubscribed`, and the load of other processes is only listed in `evidence`.

The first epoch is ignored if there are others. Shares of the time are those of rank 0. The Linux kernel reports page faults, the
CPU time that other processes used, and pressure (PSI) and CPU quota of the innermost control group, or of the machine if there is no group.
NVML reports power and clocks of a GPU. Values that the machine does not report are omitted.

A replay also measures the gain of a perfect loader ([why](../adr/0016-replayed-batch.md)). After training and saving, a run of one process
on a CPU stops its loader and repeats forward and backward of its last batch, for at most 1 % of the training time and about half a second.
`step_s` is the average step of the run with these times for forward and backward, and without the wait for the batch. The gain also
includes the time by which the loader's threads slowed down forward and backward. There is no replay with several ranks, on a GPU, with
`trainer.detect_anomaly`, or if the run is short or was stopped: `step_s` is then the average step without the wait. The replay changes no
result of the run. If the gain is below 1.05x, the summary says that data loading is not the bottleneck.
)";

constexpr const char* kTree = R"(
## The decision tree

Answer the questions in this order. The first rule that applies gives the bottleneck. Waits are waiting for batches, copies to the device,
waiting for other ranks, and checkpoints. Work is forward, backward, the optimizer, and `other`: the rest of the time.

)";

constexpr const char* kTable = R"(
## Symptoms, diagnoses, fixes

A rule applies if its part takes the time, as the decision tree asks. Rules of the part "any" apply to each part.

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
  return rule.part ? code(name_of(*rule.part)) : "not changed by this rule";
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
  std::string why = symptom.empty() ? "otherwise: " : "if " + symptom + ": ";
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
                     symptom.empty() ? "no other rule of this part applies" : symptom,
                     code(rule.cause), rule.diagnosis, fix.empty() ? "-" : fix, keys_of(rule),
                     verdict_of(rule));
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
