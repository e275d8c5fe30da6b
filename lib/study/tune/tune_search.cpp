#include "study/tune/tune_search.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervise/verdict.hpp"
#include "report/diagnosis/bottleneck.hpp"
#include "spec/checks/checks.hpp"
#include "spec/experiment/experiment.hpp"
#include "study/bench/trials.hpp"
#include "study/tune/tune.hpp"
#include "study/workers/worker_launch.hpp"

#include <cmath>
#include <csignal>
#include <system_error>

namespace trainctl::study {
namespace {

constexpr std::int64_t kFirstBatches = 8;
constexpr std::int64_t kFewestBatches = 4;
constexpr std::int64_t kMostGrowth = 16;  // limit of one extrapolation
constexpr int kMostScouts = 5;

void shorten_validation(const spec::Experiment& experiment, double part,
                        std::vector<std::string>& overrides) {
  const spec::Limit& limit = experiment.trainer.limit_val_batches;
  if (!experiment.dataset.val || part >= 1 || limit.batches == 0) return;
  if (limit.batches) {
    const double batches = std::round(static_cast<double>(*limit.batches) * part);
    overrides.push_back(fmt::format("++trainer.limit_val_batches={}",
                                    std::max<std::int64_t>(1, std::llround(batches))));
  } else {
    overrides.push_back(fmt::format("++trainer.limit_val_batches={:.8f}", limit.fraction * part));
  }
}

/// Reduces the time of saves in a shortened epoch to their share of a whole epoch.
events::Timing as_in_whole_epochs(events::Timing timing, double part) {
  const double excess_s = timing.checkpoint_s * (1 - part);
  timing.checkpoint_s -= excess_s;
  timing.wall_s -= excess_s;
  return timing;
}

/// Returns the verdict without the time that other processes took on a busy machine, because the
/// choice of the next key does not depend on other processes.
report::TuneVerdict verdict_of(const RunOutcome& run, const events::Timing& timing) {
  const report::Bottleneck found =
      report::find_bottleneck(timing, report::context_of(run.record, run.ending.levers));
  const bool is_busy = !found.otherwise.empty();
  const report::Bottleneck& shown = is_busy ? found.otherwise.front() : found;
  return {report::name_of(shown.limit),
          shown.share,
          shown.without_waits,
          shown.advice,
          shown.setting,
          shown.cause,
          is_busy ? found.share : 0};
}

TuneFacts facts_of(const RunOutcome& run, const events::Timing& timing,
                   const report::Trial& trial) {
  TuneFacts facts;
  if (const auto& started = run.record.started) {
    facts.num_workers = started->num_workers;
    facts.prefetch_factor = started->prefetch_factor;
    facts.num_threads = started->num_threads;
    facts.channels_last = started->channels_last;
    facts.ranks = std::max(started->world_size, 1);
    facts.train_samples = started->train_samples;
  }
  facts.cores = std::max(run.ending.levers.cpu_cores / facts.ranks, 1);
  const auto hello = run.record.hellos.find(0);
  facts.on_gpu = hello != run.record.hellos.end() && hello->second.device.starts_with("cuda");
  facts.cpu_percent = timing.cpu_percent;
  facts.environment = slow_variable();
  if (trial.slowest) facts.slowest_delay = trial.slowest->slowdown;
  return facts;
}

TuneResult sample_of(const RunOutcome& run, const TuneLength& length) {
  const events::Timing steady = report::sum_timing(report::steady_epochs(run.record));
  if (!(steady.wall_s > 0) || steady.samples <= 0)
    return report::TrialFailure{1, "a run logged no epoch; see " + run.folder.string()};
  const events::Timing timing = as_in_whole_epochs(steady, length.part);
  TuneSample sample{.trial = report::trial_of(run.record, run.ending.wall_s)};
  sample.sample_s = steady.wall_s / static_cast<double>(steady.samples);
  sample.verdict = verdict_of(run, timing);
  sample.facts = facts_of(run, timing, sample.trial);
  return sample;
}

std::int64_t whole_epoch(const spec::Experiment& experiment, const TuneFacts& facts) {
  return facts.train_samples > 0 ? spec::train_batches(experiment, facts.train_samples, facts.ranks)
                                 : 0;
}

std::int64_t in_steps(const spec::Experiment& experiment, std::int64_t batches) {
  const std::int64_t step = experiment.trainer.accumulate_grad_batches;
  return (batches + step - 1) / step * step;
}

double estimated_run_s(const TuneSample& sample, double epoch_s) {
  double epochs_s = 0;
  for (const double each : sample.trial.epoch_s) epochs_s += each;
  return std::max(sample.trial.total_s - epochs_s, 0.0) + TuneLength{}.epochs * epoch_s;
}

std::int64_t wanted_batches(double wanted, std::int64_t ran) {
  const auto batches = static_cast<std::int64_t>(std::ceil(std::min(wanted, 1e9)));
  return std::clamp(batches, kFewestBatches, kMostGrowth * std::max(ran, kFirstBatches));
}

TuneLength length_of(std::int64_t batches, std::int64_t whole) {
  if (whole <= 0) return {.batches = batches, .part = 1, .epochs = TuneLength{}.epochs};
  if (batches >= whole) return {};
  return {.batches = batches,
          .part = static_cast<double>(batches) / static_cast<double>(whole),
          .epochs = TuneLength{}.epochs};
}

using Words = std::vector<std::string>;

Words overrides_of(const report::TuneChanges& changes, const char* prefix) {
  Words words;
  for (const report::TuneChange& change : changes)
    words.push_back(prefix + change.key + "=" + change.value);
  return words;
}

std::string first_problem(const config::Diagnostics& diagnostics, const Error& error) {
  for (const config::Diagnostic& problem : diagnostics.sorted()) {
    if (problem.severity == config::Severity::error) return problem.message;
  }
  return one_line(error.what());
}

void append_words(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

/// Returns why the steps of the experiment cannot be recorded as CUDA graphs here; empty if they
/// can.
std::string no_capture(const spec::Experiment& experiment) {
  spec::Experiment asked = experiment;
  asked.trainer.cuda_graphs.value = true;
  const spec::Placement placement = spec::placement_of(asked.trainer, read_machine());
  return spec::capture_obstacle(asked, placement).value_or("");
}

/// Returns the exit code for a signal between two runs; a signal during a run becomes that run's
/// exit code.
std::optional<int> stop_code(launch::SignalGuard& guard) {
  for (const int signal : guard.take())
    return static_cast<int>(signal == SIGINT ? ErrorKind::interrupted : ErrorKind::terminated);
  if (guard.received_stop()) return static_cast<int>(ErrorKind::terminated);
  return std::nullopt;
}

report::TuneReport unfinished_report(const TuneOptions& options, const report::TrialFailure& why) {
  report::TuneReport report;
  report.budget_s = options.budget_s;
  report.repeats = options.repeats;
  report.tolerance = options.tolerance;
  report.end = why.overdue ? report::TuneStopReason::budget : report::TuneStopReason::stopped;
  report.ended = why.overdue ? "the budget ended before the bottleneck was known"
                             : "stopped by a signal before the bottleneck was known";
  report.exit_code = why.overdue ? static_cast<int>(ErrorKind::inconclusive) : why.exit_code;
  return report;
}

/// Finds the length of the runs and sets it in `requests`.
std::variant<report::TuneBaseline, report::TrialFailure> choose_run_length(
    const TuneOptions& options, TuneRequests& requests, const PrintLine& print) {
  const Clock& clock = steady_clock();
  const double ends_at = clock.now() + options.budget_s;
  print("choosing by trial runs how many batches and epochs each run has");
  const auto result = find_run_length(
      requests.experiment(), epoch_target_s(options.budget_s), [&](const TuneLength& length) {
        requests.use_length(length);
        TuneResult one = requests.run({}, TuneScope::lean, ends_at - clock.now());
        if (const auto* sample = std::get_if<TuneSample>(&one)) {
          requests.pin_threads(sample->facts.num_threads);
          requests.pin_layout(sample->facts.channels_last);
        }
        return one;
      });
  if (const auto* failure = std::get_if<report::TrialFailure>(&result)) {
    if (failure->overdue || launch::is_stop_code(failure->exit_code)) return *failure;
    throw Error(static_cast<ErrorKind>(failure->exit_code),
                "cannot run the unchanged experiment: " + failure->message);
  }
  const auto& found = std::get<MeasuredRunLength>(result);
  requests.use_length(found.length);
  print(found.length.batches > 0
            ? fmt::format("each run: {} epochs of {} batches", found.length.epochs,
                          with_thousands(found.length.batches))
            : fmt::format("each run: {} whole epochs", found.length.epochs));
  report::TuneBaseline baseline;
  baseline.batches = found.length.batches;
  baseline.part = found.length.part;
  baseline.epochs = found.length.epochs;
  baseline.run_s = found.run_s;
  return baseline;
}

}  // namespace

std::vector<std::string> tuning_run(const spec::Experiment& experiment, const TuneLength& length,
                                    TuneScope scope) {
  std::vector<std::string> overrides{"++early_stopping=~",
                                     "++profiler=~",
                                     "++trainer.max_time=~",
                                     "++trainer.max_steps=~",
                                     fmt::format("++trainer.max_epochs={}", length.epochs),
                                     "++trainer.num_sanity_val_steps=0",
                                     "++trainer.fast_dev_run=false",
                                     "++trainer.test=false",
                                     "++trainer.on_divergence=[]",
                                     "++trainer.max_restarts=0"};
  if (experiment.trainer.ema) overrides.emplace_back("++trainer.ema.start_epoch=0");
  if (experiment.trainer.swa) overrides.emplace_back("++trainer.swa.start_epoch=0");
  if (length.batches > 0) {
    overrides.emplace_back("++trainer.limit_train_batches=1.0");
    overrides.push_back(fmt::format("++trainer.overfit_batches={}", length.batches));
  }
  if (scope == TuneScope::lean) {
    overrides.emplace_back("++dataset.val=~");
    overrides.emplace_back(
        "++checkpoint={monitor: train/loss, save_top_k: 0, save_last: false, every_n_epochs: 1}");
  } else {
    shorten_validation(experiment, length.part, overrides);
  }
  return overrides;
}

std::vector<std::string> without_schedule(std::vector<std::string> overrides) {
  overrides.emplace_back("++scheduler=constant");
  return overrides;
}

TuneResult run_tuning(const RunRequest& request, const TuneLength& length, const Clock& clock,
                      double most_s) {
  if (most_s <= 0)
    return report::TrialFailure{static_cast<int>(ErrorKind::hang),
                                "the budget leaves no time for this run", false, true};
  const Deadline deadline(std::isfinite(most_s) ? std::optional(clock.now() + most_s)
                                                : std::nullopt);
  try {
    const RunOutcome run = run_experiment(
        request, [&](const fs::path& /*run_dir*/) { return deadline.sinks(); }, clock);
    std::error_code ignored;  // checkpoints were not requested and may be large
    fs::remove_all(run.folder / "checkpoints", ignored);
    if (run.ending.exit_code == 0) return sample_of(run, length);
    report::TrialFailure failure = failure_of(run);
    failure.overdue = deadline.has_expired();
    return failure;
  } catch (const Error& error) {
    return report::TrialFailure{error.exit_code(), error.what()};
  }
}

double epoch_target_s(double budget_s) {
  constexpr double kEpochsOfBudget = 180;  // 60 runs of three epochs
  return std::clamp(budget_s / kEpochsOfBudget, 0.5, 5.0);
}

std::variant<MeasuredRunLength, report::TrialFailure> find_run_length(
    const spec::Experiment& experiment, double target_s, const TryLength& try_length) {
  TuneLength length{.batches = in_steps(experiment, kFirstBatches), .part = 1, .epochs = 2};
  for (int runs = 1;; ++runs) {
    const TuneResult result = try_length(length);
    if (const auto* failure = std::get_if<report::TrialFailure>(&result)) return *failure;
    const auto& sample = std::get<TuneSample>(result);
    const std::int64_t whole = whole_epoch(experiment, sample.facts);
    const bool is_whole = whole > 0 && (length.batches == 0 || length.batches >= whole);
    const std::int64_t ran = is_whole ? whole : length.batches;
    const double epoch_s = std::max(sample.trial.epoch_s.back(), 1e-6);
    const double batch_s = epoch_s / static_cast<double>(ran);
    const std::int64_t next =
        is_whole ? ran : in_steps(experiment, wanted_batches(target_s / batch_s, ran));
    const TuneLength next_length = length_of(next, whole);
    if (is_whole || epoch_s >= target_s / 2 || runs == kMostScouts)
      return MeasuredRunLength{next_length, sample, runs,
                               estimated_run_s(sample, batch_s * static_cast<double>(next))};
    length = next_length;
    length.epochs = 2;
  }
}

TuneRequests::TuneRequests(Invocation invocation, config::Diagnostics& diagnostics)
    : invocation_(std::move(invocation)),
      loaded_(make_request(invocation_, {}, diagnostics).loaded) {
  const spec::Experiment& experiment = loaded_.experiment;
  ENSURE(config, !experiment.loader.batch_size.automatic,
         "loader.batch_size is auto, which only 'trainctl run' can determine\nhint: set a number, "
         "as in loader.batch_size=64");
  ENSURE(config, experiment.trainer.num_nodes == 1,
         "trainer.num_nodes must be 1 for tune, which runs on this machine only, got {}\nhint: add "
         "trainer.num_nodes=1",
         experiment.trainer.num_nodes);
}

void TuneRequests::pin_threads(int threads) {
  if (experiment().trainer.num_threads.is_auto() && threads > 0) threads_ = threads;
}

void TuneRequests::pin_layout(bool channels_last) {
  if (experiment().trainer.channels_last.is_auto()) channels_last_ = channels_last;
}

// With another precision `auto` may choose another memory format, and the run with the patch uses
// that one.
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

TuneRequests::RequestOrReason TuneRequests::read(const Words& added) {
  const std::string key = join(added, "\n");
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  config::Diagnostics diagnostics;
  RequestOrReason made;
  try {
    RunRequest request = make_request(invocation_, added, diagnostics);
    if (folder_) request.folder.root = folder_->path;
    request.folder.name = "runs";
    made = std::move(request);
  } catch (const Error& error) {
    made = first_problem(diagnostics, error);
  }
  return known_.emplace(key, std::move(made)).first->second;
}

TuneRequests::RequestOrReason TuneRequests::make(const report::TuneChanges& changes,
                                                 TuneScope scope) {
  Words words = tuning_run(experiment(), length_, scope);
  append_words(words, pins(changes));
  append_words(words, overrides_of(changes, "++"));
  RequestOrReason made = read(words);
  if (std::holds_alternative<RunRequest>(made)) return made;
  RequestOrReason constant = read(without_schedule(words));
  if (std::holds_alternative<std::string>(constant)) return made;
  has_constant_rate_ = true;
  return constant;
}

TuneResult TuneRequests::run(const report::TuneChanges& changes, TuneScope scope, double most_s) {
  const RequestOrReason made = make(changes, scope);
  if (const auto* why = std::get_if<std::string>(&made))
    return report::TrialFailure{static_cast<int>(ErrorKind::config), *why};
  return run_tuning(std::get<RunRequest>(made), length_, steady_clock(), most_s);
}

std::variant<spec::Experiment, std::string> TuneRequests::check(
    const report::TuneChanges& changes) {
  const RequestOrReason whole = read(overrides_of(changes, "++"));
  if (const auto* why = std::get_if<std::string>(&whole)) return *why;
  const RequestOrReason cut = make(changes, TuneScope::lean);
  if (const auto* why = std::get_if<std::string>(&cut)) return *why;
  return std::get<RunRequest>(whole).loaded.experiment;
}

const fs::path& TuneRequests::make_folder(const fs::path& root) {
  folder_.emplace(make_run_folder({.name = experiment().name, .root = root / "tune"}));
  return folder_->path;
}

report::TuneCommands TuneRequests::commands(const report::TuneReport& report,
                                            const fs::path& patch) const {
  if (report.patch.empty()) return {};
  const std::string& program = invocation_.argv.front();
  Words run{program, "run", invocation_.config_file.string()};
  Words check{program, "bench", invocation_.config_file.string()};
  append_words(run, invocation_.overrides);
  append_words(check, invocation_.overrides);
  Words runs = tuning_run(experiment(), length_, scope_of(patch_changes(report)));
  append_words(runs, pins(patch_changes(report)));
  append_words(check, has_constant_rate_ ? without_schedule(runs) : runs);
  for (const report::TunePatchEntry& entry : report.patch) {
    const report::TuneChange& change = entry.change;
    run.push_back(change.key + "=" + change.value);
    if (report.patch.size() == 1)
      append_words(check, {"--grid", change.key + "=" + change.before + "," + change.value});
  }
  if (report.patch.size() > 1) append_words(check, {"--against", patch.string()});
  return {shell_command(run), shell_command(check)};
}

report::TuneReport search_settings(const TuneOptions& asked, TuneRequests& requests,
                                   const PrintLine& print) {
  launch::SignalGuard guard;  // the results so far are written whenever a signal comes
  const Clock& clock = steady_clock();
  const double began = clock.now();
  const auto found_length = choose_run_length(asked, requests, print);
  if (const auto* failure = std::get_if<report::TrialFailure>(&found_length))
    return unfinished_report(asked, *failure);
  TuneOptions options = asked;
  options.spent_s = clock.now() - began;
  const TuneTools tools{.run = [&](const auto& changes, auto scope,
                                   double most_s) { return requests.run(changes, scope, most_s); },
                        .check = [&](const auto& changes) { return requests.check(changes); },
                        .no_capture = no_capture,
                        .stopped = [&] { return stop_code(guard); },
                        .say = print,
                        .clock = clock};
  return tune(options, std::get<report::TuneBaseline>(found_length), tools);
}

}  // namespace trainctl::study
