#include "bench/output.hpp"

#include "base/bounded_text.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "cli/output.hpp"
#include "report/compare/bench_junit.hpp"
#include "report/compare/bench_scaling.hpp"
#include "report/html/study_pages.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainctl::app {
namespace {

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

}  // namespace

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

}  // namespace trainctl::app
