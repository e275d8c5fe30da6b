#include "report/diagnosis/bottleneck_page.hpp"

#include "base/strings.hpp"
#include "report/diagnosis/bottleneck_rules.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace trainctl::report {
namespace {

struct Question {
  Limit part;
  const char* name;
  const char* text;
};

static_assert(kNotableWait == 0.15 && kNotableWork == 0.40 && kNotableEvaluation == 1.0 / 3);
constexpr std::array kQuestions{
    Question{
        Limit::input, "input",
        "Does the largest of the waits take 15 % or more, and is it that for batches (`data`)?"},
    Question{Limit::transfer, "transfer",
             "Is it that for copies to the device (`h2d`; on a CPU for `convert`)?"},
    Question{Limit::communication, "communication", "Is it that for other ranks (`all-reduce`)?"},
    Question{Limit::checkpoint, "checkpoint", "Is it that for checkpoints?"},
    Question{Limit::evaluation, "evaluation",
             "No wait does: does validation take a third or more?"},
    Question{
        Limit::compute, "compute",
        "Does the largest part of the work take 40 % or more, and is it forward and backward?"},
    Question{Limit::optimizer, "optimizer", "Is it the optimizer?"},
    Question{Limit::host, "host", "Is it what is between them (`other`)?"},
    Question{Limit::balanced, "balanced", "Does nothing take that much?"}};

constexpr const char* kHead = R"(# Bottlenecks

Every training run ends with a verdict: what holds it up, the numbers that say so, what a perfect loader would give, and the one key to
change, if any. The summary shows it, `bottleneck` in `result.json` (and in `run --json`) has all of it. This page is printed by
`trainctl explain --bottlenecks` from the rules that the verdict is made of. [`trainctl tune`](tune.md) tries the fixes and
proves their gain.

| field of `bottleneck` | what |
| --- | --- |
| `verdict` | `machine_busy`, `input_bound`, `transfer_bound`, `communication_bound`, `checkpoint_bound`, `evaluation_bound`, `compute_bound`, `optimizer_bound`, `host_bound` or `balanced` |
| `cause` | the row of the table below that holds; `diagnosis` is its sentence |
| `share` | of the wall time that the part takes, 0 to 1 |
| `gain` | of the advice, as a factor of the whole run: `low`, `high` (null: no bound is known), `replayed` (steps were timed with the change), `text` |
| `headroom` | the upper end of `gain`, which the advice does not exceed; null: no bound is known |
| `perfect_loader` | `speedup`, `step_s` (of a batch with a loader that always has the next one), `now_step_s` (as it was), `replayed_steps`, `text`; null where no batch was counted |
| `setting` | the override to try, which the experiment would accept; null: there is none |
| `advice` | one sentence, with the setting; a proposal to be measured |
| `checks` | batch size, threads, precision and anomaly checks: `key`, `compared`, `gain` of the alternative (null: a rule excludes it), `text` |
| `evidence` | a list of `name`, `value`, `unit`, `text` |

Gains are intervals. Without a replay the upper end is an account of the time that the change can remove: a batch of n times the rows gains
at most n times, and an effect that no measurement bounds, such as more devices or threads that take cores from one another, has no upper end. At the end of a
run of one process on a CPU the steps are replayed with one setting changed at a time: all cores or one thread, 2, 4 or 8 times the rows, bf16
where the CPU has instructions for it, and without `trainer.detect_anomaly`; each takes at most 1 % of the training, two seconds at most. A
replay counts with a margin of 15 %. The verdict names the settings that were not compared, and claims nothing about them.

`machine_busy` comes first: when processes outside of the run take 10 % of the cores while the run's threads, ready to run, wait for a core
10 % of the time, or the host withholds 10 % of the cores' time, all times are too long. `share` is then the share of the cores' time that
others take. A busy core that the run does not need, as beside a run of one thread, is no contention, nor is it idle. Threads or loader workers
beyond the number of cores wait for one another: they are the cause, and what others take is among the evidence. `otherwise` has the verdict on the
same times as if the machine were quiet.

The epochs after the first are judged, the first one where there is no other. Shares of the time are rank 0's. What the machine did comes
from the kernel: pressure and CPU quota of the innermost control group, else of the machine, page faults, lost cores; from NVML on a GPU.
What is not told is left out.

A perfect loader is measured, not guessed: when all is trained and written, a run of one process on a CPU stops its loader and takes its
last batch through forward and backward again and again, for at most 1 % of the training and about half a second. That time takes the place
of the passes' in the average step, whose waits are gone: what the loader's threads took from the step beside it is seen, too, as far as
they computed. Nothing that the run leaves depends on it ([why](adr/0016-replayed-batch.md)). Ranks, GPUs, a run that is short beside its steps or was stopped, and
runs with `trainer.detect_anomaly` are judged by their own steps without their waits. Below 1.05x the summary says to stop: loading is not the limit.
)";

constexpr const char* kTree = R"(
## The decision tree

Ask in this order; the first that holds is the verdict.

)";

constexpr const char* kTable = R"(
## Symptoms, diagnoses, fixes

A symptom counts where the part above it takes the time.

)";

std::string code(std::string_view key) { return fmt::format("`{}`", key); }

/// "`a`, `b`"; "-" where there is none.
std::string keys_of(const Rule& rule) {
  if (std::string_view(rule.key).empty()) return "-";
  std::vector<std::string> keys = split(rule.key, ',');
  for (std::string& key : keys) key = code(key.substr(key.find_first_not_of(' ')));
  return join(keys, ", ");
}

std::string verdict_of(const Rule& rule) {
  if (rule.verdict) return code(name_of(*rule.verdict));
  return rule.part ? code(name_of(*rule.part)) : "the part's";
}

std::vector<Rule> rules_of(std::optional<Limit> part) {
  std::vector<Rule> found;
  for (const Rule& rule : rules()) {
    if (rule.part == part) found.push_back(rule);
  }
  return found;
}

/// "    * if symptom: cause; fix (KEY)"
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

std::string branches_of(std::optional<Limit> part) {
  const std::vector<Rule> found = rules_of(part);
  std::string text;
  for (const Rule& rule : found) text += branch_of(rule, found.size());
  return text;
}

std::string tree() {
  std::string text = kTree;
  text += "1. Does the machine lack something, or does a setting slow down whatever part it is?\n";
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
  text += "| part | symptom | cause | diagnosis | fix | key | verdict |\n";
  text += "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Rule& rule : rules_of(std::nullopt)) text += row_of("any", rule);
  for (const Question& question : kQuestions) {
    for (const Rule& rule : rules_of(question.part)) text += row_of(question.name, rule);
  }
  return text;
}

}  // namespace

std::string bottlenecks_page() { return kHead + tree() + table(); }

Json bottlenecks_json() {
  Json list = Json::array();
  for (const Rule& rule : rules()) {
    list.push_back({{"part", rule.part ? Json(name_of(*rule.part)) : Json(nullptr)},
                    {"cause", rule.cause},
                    {"verdict", rule.verdict ? Json(name_of(*rule.verdict)) : Json(nullptr)},
                    {"symptom", rule.symptom},
                    {"diagnosis", rule.diagnosis},
                    {"fix", rule.fix},
                    {"key", rule.key}});
  }
  return list;
}

}  // namespace trainctl::report
