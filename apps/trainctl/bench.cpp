#include "report/compare/bench.hpp"

#include "base/machine/machine.hpp"
#include "cli/run_arguments.hpp"
#include "cli/verb.hpp"
#include "report/compare/bench_scaling.hpp"
#include "report/compare/junit.hpp"
#include "report/html/bench_page.hpp"
#include "spec/experiment/experiment.hpp"
#include "spec/experiment/value_types.hpp"
#include "study/bench/baseline.hpp"
#include "study/bench/bench_plan.hpp"
#include "study/bench/trials.hpp"

namespace trainctl::app {
namespace {

/// A flag that lists the values of one config key.
struct AxisFlag {
  const char* flag;
  const char* key;
  const char* help;
};

// The axes of the table are nested in this order, whatever the order on the command line.
constexpr std::array kAxes{
    AxisFlag{"--workers", "loader.num_workers", "loader threads to compare, for example 0,4,8"},
    AxisFlag{"--devices", "trainer.devices", "numbers of devices to compare, for example 1,2"},
    AxisFlag{"--batch-size", "loader.batch_size", "batch sizes per device, for example 64,128"},
    AxisFlag{"--strategy", "distributed.type", "strategies to compare: ddp,zero1,data_parallel"},
    AxisFlag{"--precision", "trainer.precision", "precisions to compare"},
    AxisFlag{"--pin-memory", "loader.pin_memory", "values of loader.pin_memory: true,false"},
    AxisFlag{"--cache", "dataset.cache.mode", "cache modes to compare, for example none,decoded"},
};

struct BenchFlags {
  ConfigArguments config;
  std::array<std::string, kAxes.size()> lists;
  std::vector<std::string> grid;
  int repeats = 5;
  std::string budget;  // duration, e.g. "10m"
  std::string out = "runs";
  bool markdown = false;
  std::string save;
  std::string csv;
  std::string junit;
  std::string html;
  std::string scaling;  // "strong" or "weak"; empty: weak if devices are compared
  std::string baseline;
  study::BenchOptions options;  // complete_options() adds what other flags decide
};

/// The results of a bench.
struct BenchOutcome {
  std::vector<report::BenchRow> rows;
  std::vector<report::Finding> findings;
  report::Pairing pairing = report::Pairing::interleaved;
  std::vector<std::string> not_compared;  // techniques that the baseline lacks
  std::string budget_note;                // one line; empty if all repeats were made
};

report::Scaling mode_of(const BenchFlags& flags) {
  return flags.options.scaling.value_or(report::Scaling::weak);
}

/// Prints the tables one below the other, each with its notes.
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
    text +=
        fmt::format("Not compared: {} (the baseline has no such setting).\n", printable(technique));
  return text;
}

bool is_whole(const std::vector<report::BenchRow>& rows) {
  return std::ranges::none_of(
      rows, [](const report::BenchRow& row) { return row.failure || row.trials.empty(); });
}

/// Does not replace an existing file, which later benches are compared with, by an incomplete one.
void save(const BenchOutcome& bench, const Json& document, const BenchFlags& flags) {
  if (!is_whole(bench.rows) && path_exists(flags.save))
    return writer_for(stderr)(fmt::format(
        "warning: {} was not replaced, because some settings of this bench failed or did not run\n",
        printable(flags.save)));
  write_atomically(flags.save, to_pretty(document) + "\n");
}

std::string strategy_note(const std::vector<report::BenchRow>& rows) {
  const std::pair<std::string, std::string> setting{"distributed.type", "data_parallel"};
  const bool has_it = std::ranges::any_of(rows, [&](const report::BenchRow& row) {
    return std::ranges::find(row.settings, setting) != row.settings.end();
  });
  return has_it ? fmt::format("{}.\n", spec::kDataParallelIsSlower) : "";
}

void print_tables(const BenchOutcome& bench, const BenchFlags& flags, const Context& context) {
  Printer printer(flags, context);
  printer.show(report::bench_table(bench.rows),
               report::bench_notes(bench.rows) + bench.budget_note + strategy_note(bench.rows));
  printer.show(report::epochs_table(bench.rows),
               "Times and memory are medians of the repeats; loss N is the mean training loss of "
               "epoch N.\n");
  const report::Scaling mode = mode_of(flags);
  const std::vector<report::ScalingRow> scaling = report::scaling_rows(bench.rows, mode);
  if (!scaling.empty())
    printer.show(report::scaling_table(bench.rows, scaling), report::scaling_notes(scaling, mode));
  if (!bench.findings.empty())
    printer.show(report::gate_table(bench.findings),
                 report::gate_notes(bench.findings, bench.pairing) + not_compared_note(bench));
}

/// Creates the output folders before hours of runs rather than after them. Throws Error(resource).
void make_output_folders(const BenchFlags& flags) {
  for (const std::string* file : {&flags.save, &flags.csv, &flags.junit, &flags.html}) {
    if (const fs::path folder = fs::path(*file).parent_path(); !folder.empty()) make_folder(folder);
  }
}

/// Prints the tables to stdout, or the document with --json, and failures to stderr.
void print_bench(const BenchOutcome& bench, const Json& document, const BenchFlags& flags,
                 const Context& context) {
  if (context.json) {
    print_json(document);
  } else {
    print_tables(bench, flags, context);
  }
  if (const std::string warning = report::contention_warning(bench.rows); !warning.empty())
    writer_for(stderr)(fmt::format("warning: {}\n", warning));
  const bool is_shown = !context.json && !context.quiet;  // below the table
  for (const report::BenchRow& row : bench.rows) {
    if (!row.failure) continue;
    const std::string why = is_shown ? printable(row.technique) + " failed; see 'Failed' above"
                                     : printable_lines(row.failure->message);
    writer_for(stderr)(fmt::format("error: {}\n", why));
  }
}

/// Writes the files of --save, --csv, --junit and --html. A bench with failed or incomplete rows
/// does not replace an existing --save file. Throws Error(resource).
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
                       .message = "not compared: the baseline has no such setting"});
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
  ENSURE(config, seconds.has_value(), "--budget must be a time such as 90s, 10m or 1h30m, got '{}'",
         printable(flags.budget));
  return seconds;
}

/// Sets the default budget for built-in experiments, so that new users see a table within three
/// minutes, even on slow machines.
void set_default_budget(BenchFlags& flags) {
  constexpr auto kBuiltinBudget = "150s";
  if (flags.budget.empty() && flags.config.file.starts_with(spec::kBuiltinPrefix))
    flags.budget = kBuiltinBudget;
}

Json document_of(const BenchOutcome& bench, const BenchFlags& flags,
                 const report::BenchSetup& setup) {
  Json document = report::bench_document(bench.rows, setup);
  const report::Scaling mode = mode_of(flags);
  document["scaling"] =
      report::scaling_json(bench.rows, report::scaling_rows(bench.rows, mode), mode);
  document["repeats_requested"] = flags.repeats;
  document["gate"] = bench.findings.empty() ? Json(nullptr) : report::gate_json(bench.findings);
  if (!bench.findings.empty()) document["gate"]["not_compared"] = bench.not_compared;
  return document;
}

/// Failed runs determine the exit code first, since the other rows then answer another question.
int code_of(const BenchOutcome& bench, const BenchFlags& flags) {
  if (const int code = study::exit_code_of(bench.rows); code != 0) return code;
  if (study::is_whole_round(bench.rows)) return report::gate_code(bench.findings);
  writer_for(stderr)(
      fmt::format("error: the budget of {} ended before every setting had run once\nhint: raise "
                  "--budget or compare fewer settings\n",
                  printable(flags.budget)));
  return static_cast<int>(ErrorKind::inconclusive);
}

/// Parses the lists of values, the scaling and the paths.
void complete_options(BenchFlags& flags) {
  study::BenchOptions& options = flags.options;
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    if (!flags.lists[i].empty())
      options.axes.push_back(study::parse_axis(kAxes[i].key, flags.lists[i]));
  }
  for (const std::string& text : flags.grid) options.axes.push_back(study::parse_grid(text));
  if (!flags.scaling.empty())
    options.scaling = flags.scaling == "strong" ? report::Scaling::strong : report::Scaling::weak;
  options.root = flags.out;
  const bool is_read = !flags.baseline.empty() && !options.fail_on.empty();
  options.baseline =
      is_read ? run_word(flags.baseline, "runs", study::RunNeeds::success) : flags.baseline;
}

void warn_of_contention(const study::WarmUp& warm_up) {
  if (warm_up.taken == 0) return;
  writer_for(stderr)(fmt::format(
      "warning: the number of CPU threads was chosen while other processes used {:.0f} % of the "
      "cores, so this number may be wrong\nhint: set trainer.num_threads, or run bench again\n",
      100 * warm_up.taken));
}

int bench(BenchFlags flags, Context& context) {
  keep_running_without_output(flags.save.empty() ? LostOutput::is_error : LostOutput::is_tolerated);
  set_default_budget(flags);
  const double began = steady_clock().now();
  const auto budget = budget_of(flags);
  complete_options(flags);
  const study::PrintLine print = progress_printer(context);
  const study::BenchPlan plan =
      study::plan_bench(flags.options, invocation_of(flags.config, context), context.diagnostics);
  print_warnings(context);
  const Json machine = report::machine_key(read_machine());
  const study::BenchGate gate(flags.options, plan, machine, print);
  make_output_folders(flags);
  study::Rounds rounds{.repeats = flags.repeats, .ends_at = {}, .clock = &steady_clock()};
  if (budget) rounds.ends_at = began + *budget;
  study::BenchRows found = study::run_bench(plan, gate.pinning(), rounds, print);
  const study::WarmUp& warm_up = found.warm_up;
  if (warm_up.stopped) return *warm_up.stopped;
  BenchOutcome outcome;
  outcome.rows = std::move(found.rows);
  outcome.findings = gate.check(outcome.rows);
  outcome.pairing = gate.pairing();
  outcome.not_compared = gate.not_compared(outcome.rows);
  outcome.budget_note = study::budget_note(outcome.rows, flags.repeats, flags.budget);
  const spec::Loaded& base = plan.requests.front().loaded;
  Json document = document_of(outcome, flags,
                              {.config = flags.config.file,
                               .machine = machine,
                               .config_hash = study::config_hash(base, study::varied_keys(plan)),
                               .config_resolved = study::resolved_config(base)});
  document["budget_s"] = budget ? Json(*budget) : Json(nullptr);
  document["num_threads"] = warm_up.threads ? Json(*warm_up.threads) : Json(nullptr);
  document["channels_last"] = found.layouts.empty() ? Json(nullptr) : Json(found.layouts);
  document["num_threads_contended"] = warm_up.taken > 0;
  warn_of_contention(warm_up);
  print_bench(outcome, document, flags, context);
  write_bench(outcome, document, flags);
  return code_of(outcome, flags);
}

}  // namespace

void add_bench(CLI::App& program, Context& context) {
  const auto [verb, flags] = add_verb(program, context,
                                      {"bench", "compare the speed of settings in alternating runs",
                                       kTrainGroup, WorkingDirectory::existing},
                                      bench);
  add_config_arguments(verb, flags.config, context, Builtin::photographs);
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    std::string help = kAxes[i].help;
    if (std::string_view(kAxes[i].key) == "trainer.precision")
      help += fmt::format(": {}", fmt::join(enum_names(spec::Precision{}), ","));
    add_options(verb, {{kAxes[i].flag, flags.lists[i], "LIST", help}});
  }
  add_options(
      verb, {{"--grid", flags.grid, "KEY=LIST",
              "values of any key to compare, for example optimizer.lr=0.1,0.01; can be repeated"},
             {"--against", flags.options.against, "FILE",
              "also measure with the overrides in FILE, for example tuned.patch.yaml from tune"},
             {"--scaling", flags.scaling, "HOW",
              "with --devices: keep the batch size per device (weak, default) or in total (strong)",
              one_of({"weak", "strong"})},
             {"--repeats", flags.repeats, "N", "runs of each setting (default: 5)",
              whole_number(1, 1000)},
             {"--budget", flags.budget, "TIME",
              "time limit, for example 10m; fewer repeats if it is short (default: none)"},
             {"--fail-on", flags.options.fail_on, "CONDITIONS",
              "fail on changes from the baseline, such as 'samples_per_s<-2.5%, rss_mb>+10%'"},
             {"--baseline", flags.baseline, "PATH",
              "baseline of --fail-on: a saved benchmark or a run (default: the first setting)"},
             {"--force-baseline", flags.options.force_baseline,
              "compare with the baseline even if machine or experiment differ"},
             {"--out", flags.out, "DIR", "parent folder of the run folders (default: runs)"},
             {"--markdown", flags.markdown, "print tables as Markdown"},
             {"--save", flags.save, "FILE", "write the JSON document to a file"},
             {"--csv", flags.csv, "FILE", "write the measurements of every run to a CSV file"},
             {"--junit", flags.junit, "FILE", "write the results of --fail-on as JUnit XML"},
             {"--html", flags.html, "FILE", "write an HTML page with charts to a file"}});
  make_repeatable(verb, "--grid");
  verb.footer(
      "Built-in experiments have a --budget of 150s. Example of several conditions (pt means\n"
      "percentage points): --fail-on \"samples_per_s<-2.5%, rss_mb>+10%, val/accuracy<-0.5pt\"\n"
      "Exit codes: 0 done; 3 a condition failed; 4 too noisy or too little time to decide;\n"
      "otherwise the code of a run that failed.");
}

}  // namespace trainctl::app
