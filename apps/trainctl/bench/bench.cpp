#include "report/compare/bench.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "bench/flags.hpp"
#include "bench/gate.hpp"
#include "bench/settings.hpp"
#include "cli/context.hpp"
#include "cli/output.hpp"
#include "report/compare/bench_scaling.hpp"
#include "report/compare/junit.hpp"
#include "report/html/study_pages.hpp"
#include "spec/experiment/value_types.hpp"
#include "spec/load.hpp"
#include "study/bench/baseline.hpp"
#include "study/bench/trials.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainctl::app {
namespace {

/// What a bench has found.
struct BenchOutcome {
  std::vector<report::BenchRow> rows;
  std::vector<report::Finding> findings;
  report::Pairing pairing = report::Pairing::interleaved;
  std::vector<std::string> not_compared;  // techniques that the baseline does not have
  std::string budget_note;                // one line; empty: all repeats were made
};

/// Makes the folders of the files that are to be written: known before an hour of runs rather than
/// after it. Throws Error(resource).
void make_output_folders(const BenchFlags& flags);

/// The tables, or the document with --json, on stdout; failures on stderr.
void print_bench(const BenchOutcome& bench, const Json& document, const BenchFlags& flags,
                 const Context& context);

/// --save, --csv, --junit and --html. A bench with rows that failed or were cut short does not
/// replace a file of --save. Throws Error(resource).
void write_bench(const BenchOutcome& bench, const Json& document, const BenchFlags& flags);

/// Tables one below the other, each with its notes.
class Printer {
 public:
  Printer(const BenchFlags& flags, const Context& context)
      : markdown_(flags.markdown),
        quiet_(context.quiet),
        style_(style_for(context, stdout)),
        out_(writer_for(stdout)) {}

  void show(const report::Table& table, const std::string& notes) {
    if (!first_) out_("\n");
    first_ = false;
    const std::string below = quiet_ ? "" : notes;
    out_(markdown_ ? report::to_markdown(table) + (below.empty() ? "" : "\n" + below)
                   : report::to_text(table, style_) + below);
  }

 private:
  bool markdown_;
  bool quiet_;
  bool first_ = true;
  report::Style style_;
  report::Write out_;
};

std::string not_compared_note(const BenchOutcome& bench) {
  std::string text;
  for (const std::string& technique : bench.not_compared)
    text += fmt::format("Not compared: {}: the baseline has no such row.\n", printable(technique));
  return text;
}

bool is_whole(const std::vector<report::BenchRow>& rows) {
  return std::ranges::none_of(
      rows, [](const report::BenchRow& row) { return row.failure || row.trials.empty(); });
}

/// What is worse than the file that is there would be compared with for weeks.
void save(const BenchOutcome& bench, const Json& document, const BenchFlags& flags) {
  std::error_code ignored;
  if (!is_whole(bench.rows) && fs::exists(flags.save, ignored)) {
    writer_for(stderr)(
        fmt::format("warning: {} is left as it was: rows of this bench failed or were never run\n",
                    printable(flags.save)));
    return;
  }
  write_atomically(flags.save, to_pretty(document) + "\n");
}

void print_tables(const BenchOutcome& bench, const BenchFlags& flags, const Context& context) {
  Printer printer(flags, context);
  printer.show(report::bench_table(bench.rows),
               report::bench_notes(bench.rows) + bench.budget_note);
  printer.show(
      report::epochs_table(bench.rows),
      "Warm-up is the median of the repeats; loss is the mean training loss of an epoch.\n");
  const report::Scaling mode = mode_of(flags);
  const std::vector<report::ScalingRow> scaling = report::scaling_rows(bench.rows, mode);
  if (!scaling.empty())
    printer.show(report::scaling_table(bench.rows, scaling), report::scaling_notes(scaling, mode));
  if (!bench.findings.empty())
    printer.show(report::gate_table(bench.findings),
                 report::gate_notes(bench.findings, bench.pairing) + not_compared_note(bench));
}

void make_output_folders(const BenchFlags& flags) {
  for (const std::string* file : {&flags.save, &flags.csv, &flags.junit, &flags.html}) {
    if (const fs::path folder = fs::path(*file).parent_path(); !folder.empty()) make_folder(folder);
  }
}

void print_bench(const BenchOutcome& bench, const Json& document, const BenchFlags& flags,
                 const Context& context) {
  if (context.json) {
    print_json(document);
  } else {
    print_tables(bench, flags, context);
  }
  if (const std::string warning = report::contention_warning(bench.rows); !warning.empty())
    writer_for(stderr)(fmt::format("warning: {}\n", warning));
  for (const report::BenchRow& row : bench.rows) {
    if (row.failure)
      writer_for(stderr)(fmt::format("error: {}\n", printable_lines(row.failure->message)));
  }
}

void write_bench(const BenchOutcome& bench, const Json& document, const BenchFlags& flags) {
  if (!flags.save.empty()) save(bench, document, flags);
  if (!flags.csv.empty())
    write_atomically(flags.csv, report::to_csv(report::trials_table(bench.rows)));
  if (!flags.junit.empty()) {
    const std::string group = "bench " + flags.config.file;
    auto cases = report::bench_cases(bench.rows, bench.findings, group);
    for (const std::string& technique : bench.not_compared)
      cases.push_back({.group = group + " gate",
                       .name = technique,
                       .result = report::CaseResult::skipped,
                       .message = "not compared: the baseline has no such row"});
    write_atomically(flags.junit, report::junit_text("trainctl bench", cases));
  }
  if (!flags.html.empty()) {
    const std::string title = std::filesystem::path(flags.config.file).filename().string();
    write_atomically(flags.html, report::bench_page(document, title));
  }
}

std::optional<double> budget_of(const BenchFlags& flags) {
  if (flags.budget.empty()) return std::nullopt;
  const auto seconds = spec::parse_duration(flags.budget);
  ENSURE(config, seconds.has_value(),
         "--budget: '{}' is no time; expected one such as 90s, 10m or "
         "1h30m",
         printable(flags.budget));
  return seconds;
}

study::RunTrial trial_runner(const BenchPlan& plan, const study::Rounds& rounds,
                             const Context& context) {
  const std::size_t runs = plan.settings.size() * static_cast<std::size_t>(rounds.repeats);
  return [&, runs, done = std::size_t{0}](std::size_t setting, int /*repeat*/) mutable {
    const study::TrialResult result =
        study::run_trial(plan.requests[setting], steady_clock(), rounds.ends_at);
    const auto* trial = std::get_if<report::Trial>(&result);
    say(context, fmt::format("run {} of {}  {}  {}", ++done, runs,
                             printable(plan.settings[setting].technique),
                             trial != nullptr ? human_duration(trial->total_s) : "failed"));
    return result;
  };
}

/// Returns the flags with the default budget of the built-in experiment: whoever tries the program
/// has a table within three minutes, on slow machines too.
BenchFlags with_default_budget(BenchFlags flags) {
  constexpr auto kBuiltinBudget = "150s";
  if (flags.budget.empty() && flags.config.file.starts_with(spec::kBuiltinPrefix))
    flags.budget = kBuiltinBudget;
  return flags;
}

Json document_of(const BenchOutcome& bench, const BenchFlags& flags,
                 const report::BenchSetup& setup) {
  Json document = report::bench_document(bench.rows, setup);
  const report::Scaling mode = mode_of(flags);
  document["scaling"] =
      report::scaling_json(bench.rows, report::scaling_rows(bench.rows, mode), mode);
  document["repeats_asked"] = flags.repeats;
  document["gate"] = bench.findings.empty() ? Json(nullptr) : report::gate_json(bench.findings);
  if (!bench.findings.empty()) document["gate"]["not_compared"] = bench.not_compared;
  return document;
}

/// Runs that failed come first: what the others tell is not what was asked for.
int code_of(const BenchOutcome& bench, const BenchFlags& flags) {
  if (const int code = study::exit_code_of(bench.rows); code != 0) return code;
  if (study::is_whole_round(bench.rows)) return report::gate_code(bench.findings);
  writer_for(stderr)(
      fmt::format("error: the budget of {} was over before every setting had run once: give more "
                  "time, or fewer settings\n",
                  printable(flags.budget)));
  return static_cast<int>(ErrorKind::inconclusive);
}

int bench(const BenchFlags& given, Context& context) {
  keep_running_without_output(given.save.empty() ? LostOutput::is_error : LostOutput::is_tolerated);
  const BenchFlags flags = with_default_budget(given);
  const double began = steady_clock().now();
  const auto budget = budget_of(flags);
  BenchPlan plan = plan_bench(flags, context);
  const spec::Loaded base = plan.requests.front().loaded;  // before its threads are pinned
  const Json machine = report::machine_key(read_machine());
  const BenchGate gate(flags, plan, machine, context);
  make_output_folders(flags);
  study::Rounds rounds{.repeats = flags.repeats, .ends_at = {}, .clock = &steady_clock()};
  if (budget) rounds.ends_at = began + *budget;
  const Pinned pinned = pin_choices(
      flags, plan,
      {.threads = gate.num_threads(), .layouts = gate.layouts(), .ends_at = rounds.ends_at},
      context);
  const study::WarmUp& warm_up = pinned.warm_up;
  if (warm_up.stopped) return *warm_up.stopped;
  BenchOutcome outcome;
  outcome.rows = study::run_rounds(plan.settings, rounds, trial_runner(plan, rounds, context));
  outcome.findings = gate.judge(outcome.rows);
  outcome.pairing = gate.pairing();
  outcome.not_compared = gate.not_compared(outcome.rows);
  outcome.budget_note = study::budget_note(outcome.rows, flags.repeats, flags.budget);
  Json document = document_of(outcome, flags,
                              {.config = flags.config.file,
                               .machine = machine,
                               .config_hash = study::config_hash(base, varied_keys(plan)),
                               .config_resolved = study::resolved_config(base)});
  document["budget_s"] = budget ? Json(*budget) : Json(nullptr);
  document["num_threads"] = warm_up.threads ? Json(*warm_up.threads) : Json(nullptr);
  document["channels_last"] = pinned.layouts.empty() ? Json(nullptr) : Json(pinned.layouts);
  document["num_threads_contended"] = warm_up.taken > 0;
  if (warm_up.taken > 0)
    writer_for(stderr)(
        fmt::format("warning: the number of CPU threads was chosen while other processes took "
                    "{:.0f} % of the cores: set trainer.num_threads, or run the bench again\n",
                    100 * warm_up.taken));
  print_bench(outcome, document, flags, context);
  write_bench(outcome, document, flags);
  return code_of(outcome, flags);
}

}  // namespace

void add_bench(CLI::App& program, Context& context) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App& verb = add_verb(program, context,
                            {"bench", "compare settings in fresh, interleaved runs", kTrainGroup,
                             WorkingDirectory::existing},
                            [flags, &context] { return bench(*flags, context); });
  add_bench_flags(verb, *flags, context);
}

}  // namespace trainctl::app
