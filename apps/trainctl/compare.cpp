#include "cli/run_paths.hpp"
#include "cli/verb.hpp"
#include "report/compare/comparison.hpp"
#include "report/compare/junit.hpp"
#include "report/html/study_pages.hpp"
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
                                          const report::Compared& compared,
                                          const std::vector<std::string>& metrics) {
  std::vector<report::Condition> parsed = report::parse_conditions(conditions.text, metrics);
  const std::vector<std::string> apart = report::machines_apart(compared);
  const auto speed = std::ranges::find_if(parsed, report::is_of_machine);
  ENSURE(config, apart.empty() || conditions.force || speed == parsed.end(),
         "--fail-on {}: {}; leave it out, or add --force", printable(speed->text),
         printable(apart.front()));
  return parsed;
}

CompareGate judge_runs(const CompareConditions& conditions, const report::Compared& runs) {
  ENSURE(config, runs.groups.size() > 1,
         "--fail-on compares with the first group of runs, and there is no other");
  const auto parsed = parsed_for(conditions, runs, report::gate_metrics(runs));
  const std::vector<report::Contest> contests = report::contests_of(runs);
  CompareGate gate{.findings = report::judge(parsed, contests), .notes = {}};
  gate.notes = report::gate_notes(gate.findings, report::Pairing::interleaved);
  if (std::ranges::find(contests, report::Pairing::apart, &report::Contest::pairing) !=
      contests.end())
    gate.notes += "Groups that have not the same seeds are compared without pairs (Welch).\n";
  return gate;
}

CompareGate judge_benches(const CompareConditions& conditions, const report::Compared& benches,
                          const std::vector<std::string>& files) {
  ENSURE(config, files.size() > 1, "--fail-on compares with the first bench: name another one");
  std::vector<report::Baseline> saved;
  for (const std::string& file : files) saved.push_back(study::load_baseline(file));
  const auto parsed = parsed_for(conditions, benches, report::gate_metrics(saved));
  CompareGate gate{.findings = report::judge(parsed, report::contests_of(saved)), .notes = {}};
  gate.notes = report::gate_notes(gate.findings, report::Pairing::apart);
  return gate;
}

/// Returns the test cases of --junit: equal losses, and each condition.
std::string compare_junit(const std::optional<report::LossComparison>& losses,
                          const std::string& first, const std::optional<CompareGate>& gate) {
  std::vector<report::JunitCase> cases;
  if (losses) {
    report::JunitCase equal{.group = "compare", .name = "equal losses"};
    if (losses->difference) {
      equal.result = report::CaseResult::failed;
      equal.message = "the losses differ at " + report::to_text(*losses->difference, first);
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

report::Compared compared_benches(const std::vector<std::string>& words) {
  report::Compared compared{.kind = "benches", .groups = {}};
  const std::vector<std::string> labels = report::short_labels(words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Json bench = report::read_document(words[i]);
    ENSURE(config, report::schema_of(bench).starts_with("trainctl.bench/"),
           "{} is a document {}: runs are compared with runs, and benches ('bench --save FILE') "
           "with benches",
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

report::Compared compared_runs(const CompareFlags& flags) {
  report::Compared compared;
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

report::Compared compared_of(const CompareFlags& flags) {
  ENSURE(config, flags.words.size() >= 2 || flags.group || flags.assert_equal_loss,
         "compare needs two runs or two bench files; with --group one list of runs will do");
  std::error_code ignored;
  const bool benches = std::ranges::all_of(
      flags.words, [&](const std::string& word) { return fs::is_regular_file(word, ignored); });
  ENSURE(config, !benches || (!flags.group && !flags.assert_equal_loss),
         "--group and --assert-equal-loss are for run folders, and these are files");
  ENSURE(config, flags.junit.empty() || flags.assert_equal_loss || !flags.fail_on.text.empty(),
         "--junit writes what --fail-on and --assert-equal-loss find: add one of them");
  ENSURE(config, !flags.fail_on.force || !flags.fail_on.text.empty(),
         "--force belongs to --fail-on");
  return benches ? compared_benches(flags.words) : compared_runs(flags);
}

/// Returns the folder of the run that the others are compared with.
std::string first_folder(const report::Compared& compared) {
  return compared.groups.front().runs.front().folder.string();
}

void print_losses(const report::LossComparison& losses, const report::Compared& compared,
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
                                                const report::Compared& compared) {
  if (!flags.assert_equal_loss) return std::nullopt;
  std::size_t runs = 0;
  for (const report::Group& group : compared.groups) runs += group.runs.size();
  ENSURE(config, runs >= 2, "--assert-equal-loss compares runs, and there is one only");
  return report::compare_losses(compared);
}

std::optional<CompareGate> gate_of(const CompareFlags& flags, const report::Compared& compared) {
  if (flags.fail_on.text.empty()) return std::nullopt;
  return compared.kind == "benches" ? judge_benches(flags.fail_on, compared, flags.words)
                                    : judge_runs(flags.fail_on, compared);
}

void print_text(const report::Compared& compared, const std::optional<CompareGate>& gate,
                const Context& context) {
  const report::Style style = style_for(context, stdout);
  if (!context.quiet) {
    writer_for(stdout)(report::compare_text(compared, style));
  }
  for (const std::string& warning : report::machines_apart(compared))
    writer_for(stderr)("warning: " + printable(warning) + "\n");
  if (!gate) return;
  const std::string table = report::to_text(report::gate_table(gate->findings), style);
  writer_for(stdout)(context.quiet ? table : "\n" + table + gate->notes);
}

Json document_of(const report::Compared& compared,
                 const std::optional<report::LossComparison>& losses,
                 const std::optional<CompareGate>& gate) {
  Json document = report::compare_document(compared, losses);
  document["gate"] = gate ? report::gate_json(gate->findings) : Json(nullptr);
  if (gate) document["gate"]["warnings"] = document["warnings"];
  return document;
}

int compare(const CompareFlags& flags, const Context& context) {
  const report::Compared compared = compared_of(flags);
  for (const report::Group& group : compared.groups) {
    for (const report::RunFiles& run : group.runs) tell_notes(run, context);
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
  const auto [verb, flags] =
      add_verb(program, context,
               {"compare", "runs, groups of runs or benches side by side", kTrainGroup}, compare);
  add_options(verb,
              {{"runs", flags.words, "PATH...",
                "runs (a folder, latest or an experiment's name) or files of 'bench --save'; runs "
                "that differ in their seed with commas between"},
               {"--group", flags.group, "runs whose configs differ in the seed only are a group"},
               {"--assert-equal-loss", flags.assert_equal_loss,
                "exit 3 where a loss of any step or epoch is not the first run's, bit by bit"},
               {"--fail-on", flags.fail_on.text, "CONDITIONS",
                "changes that end with 3 (4: too noisy to tell): samples_per_s<-2.5%, "
                "val/accuracy<-0.5pt; against the first"},
               {"--force", flags.fail_on.force,
                "judge times and memory also where the machines are others"},
               {"--junit", flags.junit, "FILE",
                "write conditions and equal losses as test cases to this file"},
               {"--html", flags.html, "FILE", "write a page with the curves, too"}});
  verb.get_option("runs")->required();
  verb.footer(
      "All are compared with the first. The interval of a difference is Student's, by pairs where\n"
      "both groups have the same seeds. Exit codes: 0 done; 2 a PATH that is none, or speeds of\n"
      "other machines under --fail-on; 3 a condition failed or a loss differs; 4 too noisy to "
      "decide.");
}

}  // namespace trainctl::app
