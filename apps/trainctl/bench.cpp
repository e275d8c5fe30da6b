#include "report/bench.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "build_info.hpp"
#include "config_arguments.hpp"
#include "context.hpp"
#include "engine_library.hpp"
#include "study/bench.hpp"
#include "study/run.hpp"
#include "study/trial.hpp"
#include "terminal.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace trainctl::app {
namespace {

struct AxisFlag {
  const char* flag;
  const char* key;
  const char* help;
  const char* place;
};

// The first one given is the outermost axis of the table, whatever the order on the command line.
constexpr std::array kAxes{
    AxisFlag{"--workers", "loader.num_workers", "loader threads to compare: 0,4,8", "LIST"},
    AxisFlag{"--devices", "trainer.devices", "device counts to compare: 1,2", "LIST"},
    AxisFlag{"--batch-size", "loader.batch_size", "batch sizes per device to compare: 64,128", "LIST"},
    AxisFlag{"--precision", "trainer.precision", "precisions to compare: 32-true,bf16-mixed", "LIST"},
    AxisFlag{"--pin-memory", "loader.pin_memory", "page-locked batches to compare: true,false", "LIST"},
};

struct BenchFlags {
  ConfigArguments config;
  std::array<std::string, kAxes.size()> lists;
  std::vector<std::string> grid;
  int repeats = 5;
  std::string out = "runs";
  bool markdown = false;
  std::string save;
};

std::vector<study::Setting> settings_of(const BenchFlags& flags) {
  std::vector<study::Axis> axes;
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    if (!flags.lists[i].empty()) axes.push_back(study::parse_axis(kAxes[i].key, flags.lists[i]));
  }
  for (const std::string& text : flags.grid) axes.push_back(study::parse_grid(text));
  return study::product(axes);
}

study::RunRequest request_for(const BenchFlags& flags, const study::Setting& setting, Context& context) {
  ConfigArguments config = flags.config;
  for (const std::string& text : setting.overrides()) config.overrides.push_back(text);
  study::RunRequest request;
  request.loaded = load_checked(config, context);
  request.config_file = config.file;
  request.folder.name = request.loaded.experiment.name;
  request.folder.root = fs::path(flags.out) / "bench";
  request.argv = context.argv;
  request.executable = executable_path();
  request.version = version_text();
  request.verbosity = context.verbosity;
  return request;
}

// Every setting is read and checked before the first process starts.
std::vector<study::RunRequest> check_all(const BenchFlags& flags, const std::vector<study::Setting>& settings,
                                         Context& context) {
  std::vector<study::RunRequest> requests;
  for (const study::Setting& setting : settings) requests.push_back(request_for(flags, setting, context));
  print_warnings(context);
  return requests;
}

void print_table(const std::vector<report::BenchRow>& rows, const BenchFlags& flags, const Context& context) {
  const report::Table table = report::bench_table(rows);
  const std::string notes = context.quiet ? "" : report::bench_notes(rows);
  const report::Write out = writer_for(stdout);
  if (flags.markdown) {
    out(report::to_markdown(table) + (notes.empty() ? "" : "\n" + notes));
  } else {
    out(report::to_text(table, style_for(context, stdout)) + notes);
  }
}

int bench(const BenchFlags& flags, Context& context) {
  const std::vector<study::Setting> settings = settings_of(flags);
  const std::vector<study::RunRequest> requests = check_all(flags, settings, context);
  // Known before an hour of runs rather than after it.
  if (const fs::path folder = fs::path(flags.save).parent_path(); !folder.empty()) make_folder(folder);
  std::size_t done = 0;
  const auto run_trial = [&](std::size_t setting, int /*repeat*/) {
    const report::Trial trial = study::run_trial(requests[setting], steady_clock());
    if (progress_for(context) != report::ProgressMode::none) {
      writer_for(stderr)(fmt::format("run {} of {}  {}  {}\n", ++done,
                                     settings.size() * static_cast<std::size_t>(flags.repeats),
                                     printable(settings[setting].technique), human_duration(trial.total_s)));
    }
    return trial;
  };
  const std::vector<report::BenchRow> rows = study::run_rounds(settings, flags.repeats, run_trial);
  const Json document = report::bench_document(rows, flags.config.file);
  if (context.json) {
    print_json(document);
  } else {
    print_table(rows, flags, context);
  }
  if (!flags.save.empty()) write_atomically(flags.save, to_pretty(document) + "\n");
  return 0;
}

}  // namespace

void add_bench(CLI::App& program, Context& context) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App& verb = add_verb(program, context, {"bench", "compare settings in fresh, interleaved runs", kTrainGroup},
                            [flags, &context] { return bench(*flags, context); });
  add_config_arguments(verb, flags->config);
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    verb.add_option(kAxes[i].flag, flags->lists[i], kAxes[i].help)->type_name(kAxes[i].place);
  }
  verb.add_option("--grid", flags->grid, "values of any key to compare: optimizer.lr=0.1,0.01; may be repeated")
      ->type_name("KEY=LIST")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_option("--repeats", flags->repeats, "runs of each setting")
      ->type_name("N")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  verb.add_option("--out", flags->out, "folder that holds the runs")->type_name("DIR")->capture_default_str();
  verb.add_flag("--markdown", flags->markdown, "print the table as Markdown");
  verb.add_option("--save", flags->save, "write the JSON document to this file")->type_name("FILE");
}

}  // namespace trainctl::app
