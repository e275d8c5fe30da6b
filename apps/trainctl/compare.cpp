#include "cli/run_arguments.hpp"
#include "cli/verb.hpp"
#include "report/compare/comparison.hpp"
#include "report/compare/junit.hpp"
#include "report/html/comparison_page.hpp"
#include "study/bench/baseline.hpp"

namespace trainctl::app {
namespace {

/// The results of --fail-on.
struct CompareGate {
  std::vector<report::Finding> findings;
  std::string notes;  // printed below the table
};

/// The conditions of --fail-on and --force.
struct CompareConditions {
  std::string text;
  bool force = false;  // also check speeds measured on different machines
};

/// Parses the conditions. Throws Error(config) for invalid ones, and for speeds of different
/// machines without --force.
std::vector<report::Condition> parsed_for(const CompareConditions& conditions,
                                          const report::RunComparison& compared,
                                          const std::vector<std::string>& metrics) {
  std::vector<report::Condition> parsed = report::parse_conditions(conditions.text, metrics);
  const std::vector<std::string> apart = report::machine_warnings(compared);
  const auto speed = std::ranges::find_if(parsed, report::is_of_machine);
  ENSURE(config, apart.empty() || conditions.force || speed == parsed.end(),
         "--fail-on {}: {}\nhint: remove the condition or add --force", printable(speed->text),
         printable(apart.front()));
  return parsed;
}

CompareGate check_runs(const CompareConditions& conditions, const report::RunComparison& runs) {
  ENSURE(config, runs.groups.size() > 1, "--fail-on requires at least two groups of runs, got one");
  const auto parsed = parsed_for(conditions, runs, report::gate_metrics(runs));
  const std::vector<report::GateComparison> contests = report::gate_comparisons(runs);
  CompareGate gate{.findings = report::evaluate_conditions(parsed, contests), .notes = {}};
  gate.notes = report::gate_notes(gate.findings, report::Pairing::interleaved);
  if (std::ranges::find(contests, report::Pairing::unpaired, &report::GateComparison::pairing) !=
      contests.end())
    gate.notes += "Groups with different seeds are compared without pairs (Welch's t-test).\n";
  return gate;
}

CompareGate check_benches(const CompareConditions& conditions, const report::RunComparison& benches,
                          const std::vector<std::string>& files) {
  ENSURE(config, files.size() > 1, "--fail-on requires at least two saved benchmarks, got one");
  std::vector<report::Baseline> saved;
  for (const std::string& file : files) saved.push_back(study::load_baseline(file));
  const auto parsed = parsed_for(conditions, benches, report::gate_metrics(saved));
  CompareGate gate{.findings = report::evaluate_conditions(parsed, report::gate_comparisons(saved)),
                   .notes = {}};
  gate.notes = report::gate_notes(gate.findings, report::Pairing::unpaired);
  return gate;
}

/// Returns the test cases of --junit: equal losses, and each condition.
std::string compare_junit(const std::optional<report::LossComparison>& losses,
                          const std::string& first, const std::optional<CompareGate>& gate) {
  std::vector<report::JunitCase> cases;
  if (losses) {
    report::JunitCase equal{.group = "compare", .name = "equal losses"};
    if (losses->difference) {
      equal.result = report::CaseResult::failure;
      equal.message =
          "the losses differ at " + one_line(report::to_text(*losses->difference, first));
    }
    cases.push_back(std::move(equal));
  }
  if (gate) {
    for (report::JunitCase& one : report::bench_cases({}, gate->findings, "compare"))
      cases.push_back(std::move(one));
  }
  return report::junit_text("trainctl compare", cases);
}

struct CompareFlags {
  std::vector<std::string> words;  // each a run, a bench file, or runs separated by commas
  bool group = false;
  bool assert_equal_loss = false;
  std::string html;
  CompareConditions fail_on;
  std::string junit;
};

report::RunComparison compared_benches(const std::vector<std::string>& words) {
  report::RunComparison compared{.kind = "benches", .groups = {}};
  const std::vector<std::string> labels = report::short_labels(words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Json bench = report::read_document(words[i]);
    ENSURE(config, report::schema_of(bench).starts_with("trainctl.bench/"),
           "{} must be a saved benchmark, got a file of the schema '{}'\nhint: compare run "
           "folders, or files of 'bench --save FILE'",
           printable(words[i]), printable(report::schema_of(bench)));
    compared.groups.push_back(report::group_of_bench(labels[i], bench));
  }
  return compared;
}

std::vector<report::RunFiles> read_all(const std::vector<std::string>& folders) {
  std::vector<report::RunFiles> runs;
  for (const std::string& folder : folders) runs.push_back(report::read_run(folder));
  return runs;
}

report::RunComparison compared_runs(const CompareFlags& flags) {
  report::RunComparison compared;
  std::vector<std::vector<std::string>> lists;
  for (const std::string& word : flags.words) lists.push_back(runs_of_word(word));
  if (flags.group) {
    std::vector<report::RunFiles> all;
    for (const auto& list : lists) {
      for (report::RunFiles& run : read_all(list)) all.push_back(std::move(run));
    }
    compared.groups = report::grouped(std::move(all));
    return compared;
  }
  const std::vector<std::string> labels = report::short_labels(flags.words);
  for (std::size_t i = 0; i < lists.size(); ++i)
    compared.groups.push_back(report::group_of(labels[i], read_all(lists[i])));
  return compared;
}

report::RunComparison compared_of(const CompareFlags& flags) {
  ENSURE(config, flags.words.size() >= 2 || flags.group || flags.assert_equal_loss,
         "compare requires two runs, two saved benchmarks, or a list of runs with --group");
  const bool benches =
      std::ranges::all_of(flags.words, [&](const std::string& word) { return is_file(word); });
  ENSURE(config, !benches || (!flags.group && !flags.assert_equal_loss),
         "--group and --assert-equal-loss require run folders, got files");
  ENSURE(config, flags.junit.empty() || flags.assert_equal_loss || !flags.fail_on.text.empty(),
         "--junit requires --fail-on or --assert-equal-loss");
  ENSURE(config, !flags.fail_on.force || !flags.fail_on.text.empty(), "--force requires --fail-on");
  return benches ? compared_benches(flags.words) : compared_runs(flags);
}

/// Returns the folder of the run that the others are compared with.
std::string first_folder(const report::RunComparison& compared) {
  return compared.groups.front().runs.front().folder.string();
}

void print_losses(const report::LossComparison& losses, const report::RunComparison& compared,
                  const Context& context) {
  if (losses.difference) {
    writer_for(stderr)("error: the losses differ at " +
                       report::to_text(*losses.difference, first_folder(compared)) + "\n");
  } else if (!context.json && !context.quiet) {
    print(fmt::format("{} losses are equal, bit by bit",
                      with_thousands(static_cast<long long>(losses.losses))));
  }
}

std::optional<report::LossComparison> losses_of(const CompareFlags& flags,
                                                const report::RunComparison& compared) {
  if (!flags.assert_equal_loss) return std::nullopt;
  std::size_t runs = 0;
  for (const report::Group& group : compared.groups) runs += group.runs.size();
  ENSURE(config, runs >= 2, "--assert-equal-loss requires at least two runs, got one");
  return report::compare_losses(compared);
}

std::optional<CompareGate> gate_of(const CompareFlags& flags,
                                   const report::RunComparison& compared) {
  if (flags.fail_on.text.empty()) return std::nullopt;
  return compared.kind == "benches" ? check_benches(flags.fail_on, compared, flags.words)
                                    : check_runs(flags.fail_on, compared);
}

void print_text(const report::RunComparison& compared, const std::optional<CompareGate>& gate,
                const Context& context) {
  const report::Style style = style_for(context, stdout);
  if (!context.quiet) {
    writer_for(stdout)(report::compare_text(compared, style));
  }
  for (const std::string& warning : report::machine_warnings(compared))
    writer_for(stderr)("warning: " + printable(warning) + "\n");
  if (!gate) return;
  const std::string table = report::to_text(report::gate_table(gate->findings), style);
  writer_for(stdout)(context.quiet ? table : "\n" + table + gate->notes);
}

Json document_of(const report::RunComparison& compared,
                 const std::optional<report::LossComparison>& losses,
                 const std::optional<CompareGate>& gate) {
  Json document = report::compare_document(compared, losses);
  document["gate"] = gate ? report::gate_json(gate->findings) : Json(nullptr);
  if (gate) document["gate"]["warnings"] = document["warnings"];
  return document;
}

int compare(const CompareFlags& flags, const Context& context) {
  const report::RunComparison compared = compared_of(flags);
  for (const report::Group& group : compared.groups) {
    for (const report::RunFiles& run : group.runs) print_notes(run, context);
  }
  const std::optional<report::LossComparison> losses = losses_of(flags, compared);
  const std::optional<CompareGate> gate = gate_of(flags, compared);
  if (!flags.html.empty()) write_atomically(flags.html, report::comparison_page(compared));
  if (!flags.junit.empty()) {
    const std::string first = losses ? first_folder(compared) : std::string();
    write_atomically(flags.junit, compare_junit(losses, first, gate));
  }
  if (context.json) {
    print_json(document_of(compared, losses, gate));
  } else {
    print_text(compared, gate, context);
  }
  if (losses) print_losses(*losses, compared, context);
  if (losses && losses->difference) return static_cast<int>(ErrorKind::regression);
  return gate ? report::gate_code(gate->findings) : 0;
}

}  // namespace

void add_compare(CLI::App& program, Context& context) {
  const auto [verb, flags] = add_verb(
      program, context,
      {"compare", "compare runs, groups of runs or saved benchmarks", kTrainGroup}, compare);
  add_options(
      verb,
      {{"runs", flags.words, "PATH...",
        "runs (folder, experiment name or latest), groups of runs (A,B,C) or saved benchmarks"},
       {"--group", flags.group, "group runs that differ only in the seed"},
       {"--assert-equal-loss", flags.assert_equal_loss,
        "fail unless all losses are equal, bit by bit"},
       {"--fail-on", flags.fail_on.text, "CONDITIONS",
        "fail on changes from the first run, such as 'train/loss>+1%, val/accuracy<-0.5pt'"},
       {"--force", flags.fail_on.force, "compare times and memory even if the machines differ"},
       {"--junit", flags.junit, "FILE", "write the results of --fail-on as JUnit XML"},
       {"--html", flags.html, "FILE", "write an HTML page with curves to a file"}});
  verb.footer(
      "All runs are compared with the first. Saved benchmarks are files of 'bench --save'.\n"
      "For groups of several seeds, each difference has a 95 % confidence interval (t-test,\n"
      "paired if both groups have the same seeds). In --fail-on, pt means percentage points.\n"
      "Exit codes: 0 done; 2 a PATH is not valid, or --fail-on compares speeds of different\n"
      "machines; 3 a condition failed or a loss differs; 4 too noisy to decide.");
}

}  // namespace trainctl::app
