#include "tune_requests.hpp"

#include "base/clock.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "cli/run_request.hpp"
#include "spec/checks/capture_decl.hpp"
#include "spec/experiment/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainctl::app {
namespace {

using Words = std::vector<std::string>;

Words overrides_of(const report::TuneChanges& changes, const char* prefix) {
  Words words;
  for (const report::TuneChange& change : changes)
    words.push_back(prefix + change.key + "=" + change.value);
  return words;
}

/// The first error in one line.
std::string first_problem(const config::Diagnostics& diagnostics, const Error& error) {
  for (const config::Diagnostic& problem : diagnostics.sorted()) {
    if (problem.severity == config::Severity::error) return problem.message;
  }
  return error.what();
}

std::string command(Words words) {
  for (std::string& word : words) word = shell_word(word);
  return join(words, " ");
}

report::TuneChanges changes_of(const report::TuneReport& report) {
  report::TuneChanges changes;
  for (const report::TunePatchEntry& entry : report.patch) changes.push_back(entry.change);
  return changes;
}

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

}  // namespace

TuneRequests::TuneRequests(const TuneFlags& flags, Context& context)
    : flags_(flags), context_(context), loaded_(load_checked(flags.config, context)) {
  print_warnings(context);
  context.diagnostics = {};
  const spec::Experiment& experiment = loaded_.experiment;
  ENSURE(config, !experiment.loader.batch_size.automatic,
         "loader.batch_size is auto, which only 'trainctl run' finds out: add a number, as in "
         "loader.batch_size=64");
  ENSURE(config, experiment.trainer.num_nodes == 1,
         "trainer.num_nodes is {}, and tune starts its runs on this machine alone: add "
         "trainer.num_nodes=1",
         experiment.trainer.num_nodes);
}

void TuneRequests::pin_threads(int threads) {
  if (experiment().trainer.num_threads.is_auto() && threads > 0) threads_ = threads;
}

void TuneRequests::pin_layout(bool channels_last) {
  if (experiment().trainer.channels_last.is_auto()) channels_last_ = channels_last;
}

// In another number format `auto` may choose another layout: the run with the patch will have that.
Words TuneRequests::pins(const report::TuneChanges& changes) const {
  Words words;
  if (threads_) words.push_back(fmt::format("++trainer.num_threads={}", *threads_));
  const bool same_format = std::ranges::none_of(changes, [](const report::TuneChange& change) {
    return change.key == "trainer.precision" || change.key == "trainer.channels_last";
  });
  if (channels_last_ && same_format)
    words.push_back(fmt::format("++trainer.channels_last={}", *channels_last_));
  return words;
}

TuneRequests::Made TuneRequests::read(const Words& added) {
  const std::string key = join(added, "\n");
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  ConfigArguments config = flags_.config;
  append(config.overrides, added);
  context_.diagnostics = {};
  Made made;
  try {
    study::RunRequest request = request_of(load_checked(config, context_), config, context_);
    if (folder_) request.folder.root = folder_->path;
    request.folder.name = "runs";
    made = std::move(request);
  } catch (const Error& error) {
    made = first_problem(context_.diagnostics, error);
  }
  context_.diagnostics = {};
  return known_.emplace(key, std::move(made)).first->second;
}

TuneRequests::Made TuneRequests::make(const report::TuneChanges& changes, study::TuneScope scope) {
  Words words = study::tuning_run(experiment(), length_, scope);
  append(words, pins(changes));
  append(words, overrides_of(changes, "++"));
  Made made = read(words);
  if (std::holds_alternative<study::RunRequest>(made)) return made;
  Made constant = read(study::without_schedule(words));
  if (std::holds_alternative<std::string>(constant)) return made;
  has_constant_rate_ = true;
  return constant;
}

study::TuneResult TuneRequests::run(const report::TuneChanges& changes, study::TuneScope scope,
                                    double most_s) {
  const Made made = make(changes, scope);
  if (const auto* why = std::get_if<std::string>(&made))
    return report::TrialFailure{static_cast<int>(ErrorKind::config), *why};
  return study::run_tuning(std::get<study::RunRequest>(made), length_, steady_clock(), most_s);
}

std::variant<spec::Experiment, std::string> TuneRequests::check(
    const report::TuneChanges& changes) {
  const Made whole = read(overrides_of(changes, "++"));
  if (const auto* why = std::get_if<std::string>(&whole)) return *why;
  const Made cut = make(changes, study::TuneScope::lean);
  if (const auto* why = std::get_if<std::string>(&cut)) return *why;
  return std::get<study::RunRequest>(whole).loaded.experiment;
}

const fs::path& TuneRequests::make_folder() {
  folder_.emplace(
      study::make_run_folder({.name = experiment().name, .root = fs::path(flags_.out) / "tune"}));
  return folder_->path;
}

report::TuneCommands TuneRequests::commands(const report::TuneReport& report,
                                            const fs::path& patch) const {
  if (report.patch.empty()) return {};
  const std::string& program = context_.argv.front();
  Words run{program, "run", flags_.config.file};
  Words check{program, "bench", flags_.config.file};
  append(run, flags_.config.overrides);
  append(check, flags_.config.overrides);
  Words runs = study::tuning_run(experiment(), length_, study::scope_of(changes_of(report)));
  append(runs, pins(changes_of(report)));
  append(check, has_constant_rate_ ? study::without_schedule(runs) : runs);
  for (const report::TunePatchEntry& entry : report.patch) {
    const report::TuneChange& change = entry.change;
    run.push_back(change.key + "=" + change.value);
    if (report.patch.size() == 1)
      append(check, {"--grid", change.key + "=" + change.before + "," + change.value});
  }
  if (report.patch.size() > 1) append(check, {"--against", patch.string()});
  return {command(run), command(check)};
}

std::string no_capture(const spec::Experiment& experiment) {
  spec::Experiment asked = experiment;
  asked.trainer.cuda_graphs.value = true;
  const spec::Placement placement = spec::placement_of(asked.trainer, read_machine());
  return spec::capture_obstacle(asked, placement).value_or("");
}

}  // namespace trainctl::app
