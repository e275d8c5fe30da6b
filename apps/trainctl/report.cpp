#include "base/machine/machine.hpp"
#include "cli/run_arguments.hpp"
#include "cli/verb.hpp"
#include "report/compare/comparison.hpp"
#include "report/html/bench_page.hpp"
#include "report/html/comparison_page.hpp"
#include "report/html/run_page.hpp"
#include "report/html/sweep_page.hpp"
#include "report/record/run_files.hpp"
#include "report/sinks/tensorboard_sink.hpp"
#include "study/predict/worst_samples.hpp"

#include <chrono>

namespace trainctl::app {
namespace {

struct ReportFlags {
  std::vector<std::string> words;
  std::string out;
  study::WorstRequest worst;
  bool tensorboard = false;
};

/// A page, its kind, and its file.
struct Made {
  std::string kind;  // "run", "comparison", "bench" or "sweep"
  std::string page;
  fs::path file;
  std::vector<std::string> notes;
  fs::path events = {};  // the event file for TensorBoard; empty: none was written
};

constexpr std::array kSweepFiles{"sweep.json", "result.json", "results.json"};

/// Returns the document of a sweep folder.
std::optional<fs::path> sweep_file(const fs::path& folder) {
  for (const char* name : kSweepFiles) {
    const fs::path file = folder / name;
    if (!is_file(file)) continue;
    try {
      if (report::schema_of(report::read_document(file)).starts_with("trainctl.sweep/"))
        return file;
    } catch (const Error&) {
      continue;  // another file of that name: the folder may be a run
    }
  }
  return std::nullopt;
}

Made made_of_sweep(const fs::path& file) {
  const Json sweep = report::read_document(file);
  const std::vector<report::SweptRun> runs = report::swept_runs(sweep, file.parent_path());
  const std::string title = fs::absolute(file).parent_path().filename().string();
  return {"sweep", report::sweep_page(sweep, runs, title), file.parent_path() / "report.html", {}};
}

Made made_of_file(const fs::path& file) {
  const Json document = report::read_document(file);
  const std::string schema = report::schema_of(document);
  if (schema.starts_with("trainctl.sweep/")) return made_of_sweep(file);
  ENSURE(config, schema.starts_with("trainctl.bench/"),
         "{} must be a saved benchmark or a sweep, got a file of the schema '{}'\nhint: name a run "
         "folder, a file of 'bench --save FILE' or a sweep folder",
         printable(file.string()), printable(schema));
  return {"bench",
          report::bench_page(document, file.filename().string()),
          fs::path(file).replace_extension(".html"),
          {}};
}

/// Writes the pictures at the last step of the run. Returns the event file.
fs::path write_pictures(const report::RunFiles& run,
                        const std::vector<report::WorstSample>& worst) {
  using Seconds = std::chrono::duration<double>;
  const double now = Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::int64_t step = run.epochs.empty() ? 0 : run.epochs.back().global_step;
  return report::write_worst_pictures(run.folder / "tensorboard", read_machine().host, {now, step},
                                      worst);
}

Made made_of_run(const ReportFlags& flags, Context& context) {
  const report::RunFiles run = report::read_run(flags.words.front());
  const study::PrintLine warn = [&](const std::string& line) {
    if (!context.quiet && !context.json) put(stderr, "warning: " + line + "\n");
  };
  const report::RunPageExtras extras =
      study::run_page_extras(run, flags.worst, {context.diagnostics, warn});
  Made made{"run", report::run_page(run, extras), run.folder / "report.html", run.notes};
  if (flags.tensorboard) made.events = write_pictures(run, extras.worst);
  return made;
}

Made made_of_runs(const std::vector<std::string>& words) {
  report::RunComparison compared;
  Made made{.kind = "comparison", .page = {}, .file = "comparison.html", .notes = {}};
  const std::vector<std::string> labels = report::short_labels(words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::vector<report::RunFiles> runs;
    for (const std::string& folder : runs_of_word(words[i])) {
      runs.push_back(report::read_run(folder));
      for (const std::string& note : runs.back().notes) made.notes.push_back(folder + ": " + note);
    }
    compared.groups.push_back(report::group_of(labels[i], std::move(runs)));
  }
  made.page = report::comparison_page(compared);
  return made;
}

Made made_of(const ReportFlags& flags, Context& context) {
  const std::string& first = flags.words.front();
  const bool is_one = flags.words.size() == 1 && path_exists(first);
  ENSURE(config, flags.worst.count == 0 || (is_one && report::is_run_folder(first)),
         "--worst requires exactly one run folder");
  ENSURE(config, !flags.tensorboard || flags.worst.count > 0, "--tensorboard requires --worst");
  if (!is_one) return made_of_runs(flags.words);
  if (is_file(first)) return made_of_file(first);
  if (const auto sweep = sweep_file(first)) return made_of_sweep(*sweep);
  return made_of_run(flags, context);
}

int make_report(ReportFlags flags, Context& context) {
  for (std::string& word : flags.words) {
    if (!sweep_file(word)) word = run_word(word);
  }
  Made made = made_of(flags, context);
  if (!flags.out.empty()) made.file = flags.out;
  write_atomically(made.file, made.page);
  if (context.json)
    return print_json({{"schema", "trainctl.report/2"},
                       {"kind", made.kind},
                       {"file", made.file.string()},
                       {"bytes", made.page.size()},
                       {"notes", made.notes}});
  if (!context.quiet) {
    for (const std::string& note : made.notes)
      put(stderr, fmt::format("warning: {}\n", printable(note)));
  }
  print(printable(made.file.string()));
  if (!made.events.empty()) print(printable(made.events.string()));
  return 0;
}

}  // namespace

void add_report(CLI::App& program, Context& context) {
  const auto [verb, flags] =
      add_verb(program, context,
               {"report", "write an HTML page about runs, a benchmark or a sweep", kTrainGroup},
               make_report);
  add_options(verb,
              {{"runs", flags.words, "PATH...",
                "runs (folder, experiment name or latest), a saved benchmark or a sweep"},
               {"--out", flags.out, "FILE",
                "page to write (default: report.html in the run folder; other cases: see below)"},
               {"--worst", flags.worst.count, "N", "show the N samples with the worst predictions",
                within(1, 200)},
               {"--predictions", flags.worst.predictions, "FILE",
                "CSV file of 'trainctl predict' (default: predictions.csv of the run)"},
               {"--split", flags.worst.split, "SPLIT",
                "split of the predictions: train, val or test (default: val)"},
               {"--tensorboard", flags.tensorboard,
                "also write the pictures of --worst to tensorboard/ of the run"}});
  verb.footer(
      "Uses only what the runs have recorded. Default of --out: report.html in the folder of the\n"
      "run or sweep, NAME.html next to the benchmark NAME.json, or ./comparison.html for several\n"
      "runs.");
}

}  // namespace trainctl::app
