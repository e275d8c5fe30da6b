#include "report/bench.hpp"

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "config_arguments.hpp"
#include "console.hpp"
#include "context.hpp"
#include "run_request.hpp"
#include "study/bench.hpp"
#include "study/run.hpp"
#include "study/trial.hpp"
#include "terminal.hpp"
#include "verbs.hpp"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
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
    AxisFlag{"--batch-size", "loader.batch_size", "batch sizes per device to compare: 64,128",
             "LIST"},
    AxisFlag{"--precision", "trainer.precision", "precisions to compare", "LIST"},
    AxisFlag{"--pin-memory", "loader.pin_memory", "page-locked batches to compare: true,false",
             "LIST"},
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

using Overrides = std::vector<std::string>;

study::RunRequest request_for(const BenchFlags& flags, const Overrides& added, Context& context) {
  ConfigArguments config = flags.config;
  config.overrides.insert(config.overrides.end(), added.begin(), added.end());
  study::RunRequest request = request_of(load_checked(config, context), config, context);
  request.folder.root = fs::path(flags.out) / "bench";
  return request;
}

// Every setting is read and checked before the first process starts.
std::vector<study::RunRequest> check_all(const BenchFlags& flags,
                                         const std::vector<study::Setting>& settings,
                                         Context& context) {
  std::vector<study::RunRequest> requests;
  for (const study::Setting& setting : settings)
    requests.push_back(request_for(flags, setting.overrides(), context));
  print_warnings(context);
  return requests;
}

void print_table(const std::vector<report::BenchRow>& rows, const BenchFlags& flags,
                 const Context& context) {
  const report::Table table = report::bench_table(rows);
  const std::string notes = context.quiet ? "" : report::bench_notes(rows);
  const report::Write out = writer_for(stdout);
  if (flags.markdown) {
    out(report::to_markdown(table) + (notes.empty() ? "" : "\n" + notes));
  } else {
    out(report::to_text(table, style_for(context, stdout)) + notes);
  }
}

bool chooses_threads(const study::RunRequest& request) {
  return request.loaded.experiment.trainer.num_threads.is_auto();
}

void say(const Context& context, const std::string& line) {
  if (progress_for(context) != report::ProgressMode::none) writer_for(stderr)(line + "\n");
}

// Left to itself every run measures how many threads are best, and may find another number than the
// row it is compared with: one run of one batch decides for all.
study::WarmUp pin_threads(const BenchFlags& flags, const std::vector<study::Setting>& settings,
                          std::vector<study::RunRequest>& requests, Context& context) {
  const auto first = std::ranges::find_if(requests, chooses_threads);
  if (first == requests.end()) return {};
  Overrides added = settings[static_cast<std::size_t>(first - requests.begin())].overrides();
  added.emplace_back("trainer.fast_dev_run=true");
  const study::WarmUp found = study::warm_up(request_for(flags, added, context), steady_clock());
  if (!found.threads || found.stopped) return found;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!chooses_threads(requests[i])) continue;
    added = settings[i].overrides();
    added.push_back(fmt::format("trainer.num_threads={}", *found.threads));
    requests[i] = request_for(flags, added, context);
  }
  say(context, fmt::format("warm-up  {} CPU thread{} a process in every run", *found.threads,
                           *found.threads == 1 ? "" : "s"));
  return found;
}

study::RunTrial trial_runner(const BenchFlags& flags, const std::vector<study::Setting>& settings,
                             const std::vector<study::RunRequest>& requests,
                             const Context& context) {
  const std::size_t runs = settings.size() * static_cast<std::size_t>(flags.repeats);
  return [&, runs, done = std::size_t{0}](std::size_t setting, int /*repeat*/) mutable {
    const study::TrialResult result = study::run_trial(requests[setting], steady_clock());
    const auto* trial = std::get_if<report::Trial>(&result);
    say(context,
        fmt::format("run {} of {}  {}  {}", ++done, runs, printable(settings[setting].technique),
                    trial != nullptr ? human_duration(trial->total_s) : "failed"));
    return result;
  };
}

void print_rows(const std::vector<report::BenchRow>& rows, const Json& document,
                const BenchFlags& flags, const Context& context) {
  if (context.json) {
    print_json(document);
  } else {
    print_table(rows, flags, context);
  }
  for (const report::BenchRow& row : rows) {
    if (row.failure)
      writer_for(stderr)(fmt::format("error: {}\n", printable(row.failure->message)));
  }
}

int bench(const BenchFlags& flags, Context& context) {
  const std::vector<study::Setting> settings = settings_of(flags);
  std::vector<study::RunRequest> requests = check_all(flags, settings, context);
  // Known before an hour of runs rather than after it.
  if (const fs::path folder = fs::path(flags.save).parent_path(); !folder.empty())
    make_folder(folder);
  const study::WarmUp warm_up = pin_threads(flags, settings, requests, context);
  if (warm_up.stopped) return *warm_up.stopped;
  const std::vector<report::BenchRow> rows =
      study::run_rounds(settings, flags.repeats, trial_runner(flags, settings, requests, context));
  Json document = report::bench_document(rows, flags.config.file);
  document["num_threads"] = warm_up.threads ? Json(*warm_up.threads) : Json(nullptr);
  print_rows(rows, document, flags, context);
  if (!flags.save.empty()) write_atomically(flags.save, to_pretty(document) + "\n");
  return study::exit_code_of(rows);
}

}  // namespace

void add_bench(CLI::App& program, Context& context) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App& verb = add_verb(program, context,
                            {"bench", "compare settings in fresh, interleaved runs", kTrainGroup},
                            [flags, &context] { return bench(*flags, context); });
  add_config_arguments(verb, flags->config);
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    std::string help = kAxes[i].help;
    if (std::string_view(kAxes[i].key) == "trainer.precision") {
      help += fmt::format(": {}", fmt::join(enum_names(spec::Precision{}), ","));
    }
    verb.add_option(kAxes[i].flag, flags->lists[i], help)->type_name(kAxes[i].place);
  }
  verb.add_option("--grid", flags->grid,
                  "values of any key to compare: optimizer.lr=0.1,0.01; may be repeated")
      ->type_name("KEY=LIST")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_option("--repeats", flags->repeats, "runs of each setting")
      ->type_name("N")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  verb.add_option("--out", flags->out, "folder that holds the runs")
      ->type_name("DIR")
      ->capture_default_str();
  verb.add_flag("--markdown", flags->markdown, "print the table as Markdown");
  verb.add_option("--save", flags->save, "write the JSON document to this file")->type_name("FILE");
}

}  // namespace trainctl::app
