#include "study/resume/verify_resume.hpp"

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/strings.hpp"
#include "checkpoint/store.hpp"
#include "launch/process/signals.hpp"
#include "launch/supervise/verdict.hpp"

#include <csignal>
#include <system_error>

namespace trainctl::study {
namespace {

constexpr std::uint64_t kMostMetricsBytes = std::uint64_t{4} << 30;

using LineKey = std::pair<std::int64_t, std::string>;

LineKey key_of(const MetricsLine& line) { return {line.step, line.type}; }

std::string name_of(const MetricsLine& line) {
  return fmt::format("{} {}", line.type == "step" ? "step" : line.type + " ending at step",
                     with_thousands(line.step));
}

MetricsLine parse_line(const std::string& text, std::size_t number) {
  MetricsLine line;
  line.values = parse_json(text);
  const bool is_valid = line.values.is_object() && line.values.contains("type") &&
                        line.values["type"].is_string() && line.values.contains("step") &&
                        line.values["step"].is_number_integer();
  ENSURE(unexpected, is_valid, "line {} of metrics.jsonl is invalid: {}", number, printable(text));
  line.type = line.values["type"].get<std::string>();
  line.step = line.values["step"].get<std::int64_t>();
  line.values.erase("elapsed_s");
  return line;
}

/// Compares the texts of numbers, which is exact because each number is written so that it reads
/// back to the same bits.
std::optional<std::string> difference_of(const MetricsLine& expected, const MetricsLine& found) {
  for (const auto& [key, value] : expected.values.items()) {
    const std::string wanted = to_line(value);
    const std::string got = found.values.contains(key) ? to_line(found.values[key]) : "missing";
    if (got != wanted)
      return fmt::format("{}: {} is {}, expected {}", name_of(expected), printable(key), got,
                         wanted);
  }
  if (found.values.size() != expected.values.size())
    return name_of(expected) + " has additional values";
  return std::nullopt;
}

using report::Kill;
using report::Sameness;
using report::StateComparison;

RunRequest overridden(RunRequest request, const std::vector<std::string>& overrides) {
  config::Diagnostics problems;
  request.loaded = spec::overridden(std::move(request.loaded), overrides, problems);
  problems.throw_if_errors();
  request.overrides.insert(request.overrides.end(), overrides.begin(), overrides.end());
  return request;
}

std::string why_of(const RunOutcome& run) {
  if (!run.ending.message.empty()) return one_line(without_hint(run.ending.message));
  return fmt::format("the run ended with exit code {}", run.ending.exit_code);
}

std::string parameter_digest_of(const RunOutcome& run) {
  const auto found = run.record.finished.find(0);
  return found == run.record.finished.end() ? "" : found->second.parameter_digest;
}

class ResumeVerifier {
 public:
  ResumeVerifier(const RunRequest& request, const VerifyResumeOptions& options, const Clock& clock)
      : request_(request), options_(options), clock_(clock) {}

  report::ResumeCheck execute() {
    run_uninterrupted();
    const auto last = std::max<std::int64_t>(check_.steps - 1, 0);
    const auto first = std::min(check_.every_n_steps, std::max<std::int64_t>(last, 1));
    const auto points = draw_kill_points(options_.seed, options_.kills, {first, last});
    for (std::size_t i = 0; i < points.size(); ++i) {
      check_.kills.push_back(try_kill(static_cast<int>(i), points[i]));
      print_progress(check_.kills.back());
    }
    return std::move(check_);
  }

 private:
  void run_uninterrupted() {
    base_dir_ = options_.scratch / "uninterrupted";
    const RunOutcome run = run_in(request_, base_dir_, nullptr);
    const std::string_view hint = hint_of(run.ending.message);
    if (run.ending.exit_code != 0)
      throw Error(static_cast<ErrorKind>(run.ending.exit_code),
                  fmt::format("the uninterrupted run failed: {}{}{}", why_of(run),
                              hint.empty() ? "" : "\nhint: ", hint));
    record_baseline(run);
    options_.print_line(
        fmt::format("uninterrupted run: {} steps in {}, a checkpoint every {} steps",
                    with_thousands(check_.steps), human_duration(check_.wall_s),
                    with_thousands(check_.every_n_steps)));
  }

  void record_baseline(const RunOutcome& run) {
    ENSURE(unexpected, run.record.started.has_value() && run.record.finished.contains(0),
           "rank 0 did not report the result of the run");
    const events::RunStarted& began = *run.record.started;
    const events::Finished& ended = run.record.finished.at(0);
    check_.seed = options_.seed;
    check_.steps = ended.global_step;
    check_.epochs = ended.epochs;
    check_.wall_s = run.ending.wall_s;
    check_.world_size = began.world_size;
    check_.parameter_digest = ended.parameter_digest;
    check_.data_digest = ended.data_digest;
    check_.every_n_steps = checkpoint_interval(ended.global_step, began.steps_per_epoch);
    metrics_ = read_metrics(base_dir_);
    digests_ = batch_digests({&run.record});
    resumed_ =
        overridden(request_, {fmt::format("++checkpoint.every_n_steps={}", check_.every_n_steps)});
    // A resumed run takes these choices from its checkpoint.
    killed_ = overridden(resumed_, measured_overrides(began));
  }

  /// Returns one rank after the other, then nullopt for all of them together.
  [[nodiscard]] std::optional<int> rank_of(int index) const {
    const int turns = check_.world_size == 1 ? 1 : check_.world_size + 1;
    const int turn = index % turns;
    return turn == check_.world_size ? std::nullopt : std::optional(turn);
  }

  /// Tries again at an earlier step if the run finishes before its events arrive.
  Kill try_kill(int index, std::int64_t step) {
    constexpr int kTries = 4;
    Kill kill;
    kill.number = index + 1;
    kill.step = step;
    const std::optional<int> rank = rank_of(index);
    kill.killed = rank ? fmt::format("rank {}", *rank) : "all ranks";
    for (int attempt = 0; attempt < kTries; ++attempt) {
      const fs::path folder =
          options_.scratch / fmt::format("kill-{}-{}", kill.number, attempt + 1);
      const RunOutcome run = run_in(killed_, folder, std::make_unique<ProcessKiller>(step, rank));
      if (was_killed(run, kill)) {
        resume_and_compare(folder, run, kill);
        return kill;
      }
      if (!kill.failure.empty()) {
        check_.folder = options_.scratch.string();
        return kill;
      }
      remove_folder(folder);
      step = std::max<std::int64_t>(1, step / 2);
    }
    kill.failure = "the run ended before it could be killed: train longer";
    return kill;
  }

  static bool was_killed(const RunOutcome& run, Kill& kill) {
    const auto& failure = run.ending.first_failure;
    if (failure && failure->signal == SIGKILL) {
      kill.died_at = failure->step;
      kill.epoch = static_cast<std::int64_t>(run.record.epochs.size());
      kill.phase = failure->phase;
      return true;
    }
    if (run.ending.exit_code != 0) kill.failure = "failed before it was killed: " + why_of(run);
    return false;
  }

  void resume_and_compare(const fs::path& folder, const RunOutcome& killed, Kill& kill) {
    try {
      set_resumed_from(folder, kill);
      const bool starts_from_scratch = kill.resumed_from.empty();
      // The run continues from its newest valid checkpoint, or starts from the beginning.
      RunRequest request = starts_from_scratch ? killed_ : resumed_;
      request.resume = ResumeRequest{};
      const RunOutcome run = run_in(std::move(request), folder, nullptr);
      kill.ran_to_its_end = run.ending.exit_code == 0;
      if (kill.ran_to_its_end) {
        compare_runs(folder, killed, run, kill);
      } else {
        kill.failure = "the resumed run failed: " + why_of(run);
      }
    } catch (const Error& error) {
      if (launch::is_stop_code(error.exit_code())) throw;
      kill.failure = one_line(error.what());
    }
    if (report::is_identical(kill)) return remove_folder(folder);
    check_.folder = options_.scratch.string();
  }

  /// A checkpoint that fails verification counts as lost, even if an older one is found.
  static void set_resumed_from(const fs::path& folder, Kill& kill) {
    checkpoint::Store store(folder / "checkpoints");
    const auto newest = store.newest_valid([&](const fs::path& moved, const std::string& why) {
      kill.failure = fmt::format("{} was damaged: {}", moved.filename().string(), why);
    });
    if (newest) kill.resumed_from = newest->filename().string();
  }

  void compare_runs(const fs::path& folder, const RunOutcome& killed, const RunOutcome& run,
                    Kill& kill) const {
    kill.weights = compare_section(base_dir_, folder, {{"model", "averager", "keeper"}, {}});
    const std::string digest = parameter_digest_of(run);
    if (digest != check_.parameter_digest && kill.weights.sameness != Sameness::different)
      kill.weights = {Sameness::different, fmt::format("the hash of the weights is {}, expected {}",
                                                       digest, check_.parameter_digest)};
    kill.optimizer = compare_section(
        base_dir_, folder,
        {{"optimizer", "scaler", "sync", "task"}, {"optimizer", "scheduler", "task"}});
    kill.losses = to_comparison(first_difference(metrics_, read_metrics(folder)));
    kill.batches = compare(digests_, batch_digests({&killed.record, &run.record}));
  }

  RunOutcome run_in(RunRequest request, const fs::path& folder,
                    std::unique_ptr<report::Sink> killer) {
    request.folder.fixed = folder;
    const std::vector<std::string> columns = metric_columns(request.loaded.experiment);
    const auto make_sinks = [&](const fs::path& run_dir) {
      Sinks sinks;
      sinks.push_back(report::make_csv_sink(run_dir, columns));
      sinks.push_back(report::make_jsonl_sink(run_dir));
      if (killer) sinks.push_back(std::move(killer));
      return sinks;
    };
    RunOutcome run = run_experiment(request, make_sinks, clock_);
    if (launch::is_stop_code(run.ending.exit_code))
      throw Error(static_cast<ErrorKind>(run.ending.exit_code), "stopped");
    ENSURE(interrupted, !guard_.received_stop(), "stopped");
    return run;
  }

  static void remove_folder(const fs::path& folder) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }

  void print_progress(const Kill& kill) const {
    std::string verdict = kill.failure;
    if (verdict.empty()) verdict = report::is_identical(kill) ? "identical" : "different";
    options_.print_line(fmt::format(
        "kill {} of {}: {} at step {}, resumed from {}: {}", kill.number, options_.kills,
        kill.killed, with_thousands(kill.died_at),
        kill.resumed_from.empty() ? "the beginning" : kill.resumed_from, printable(verdict)));
  }

  const RunRequest& request_;
  const VerifyResumeOptions& options_;
  const Clock& clock_;
  launch::SignalGuard guard_;  // a signal between two runs must end all of them
  RunRequest killed_;          // the request of the killed runs
  RunRequest resumed_;         // the request of the resumed runs
  report::ResumeCheck check_;
  fs::path base_dir_;
  std::vector<MetricsLine> metrics_;
  BatchDigests digests_;
};

constexpr std::uint16_t kOperation = 0x4b11;  // separates these draws from those of a run

std::int64_t step_of(const events::Event& event) {
  if (const auto* logged = std::get_if<events::StepLogged>(&event)) return logged->global_step;
  if (const auto* progress = std::get_if<events::Progress>(&event)) return progress->global_step;
  return 0;
}

}  // namespace

std::vector<MetricsLine> parse_metrics(std::string_view text) {
  std::vector<MetricsLine> lines;
  std::size_t number = 0;
  for (const std::string& one : split(text, '\n')) {
    ++number;
    if (!one.empty()) lines.push_back(parse_line(one, number));
  }
  return lines;
}

std::vector<MetricsLine> read_metrics(const fs::path& run_dir) {
  const fs::path file = run_dir / "metrics.jsonl";
  if (!path_exists(file)) return {};
  return parse_metrics(read_file(file, kMostMetricsBytes, ReadFailure::resource));
}

std::optional<std::string> first_difference(const std::vector<MetricsLine>& expected,
                                            const std::vector<MetricsLine>& found) {
  std::map<LineKey, const MetricsLine*> wanted;
  for (const MetricsLine& line : expected) wanted[key_of(line)] = &line;
  std::set<LineKey> present;
  for (const MetricsLine& line : found) {
    const auto at = wanted.find(key_of(line));
    if (at == wanted.end()) return name_of(line) + " is not in the uninterrupted run";
    if (auto difference = difference_of(*at->second, line)) return difference;
    present.insert(at->first);
  }
  for (const auto& [key, line] : wanted) {
    if (!present.contains(key)) return name_of(*line) + " is missing";
  }
  return std::nullopt;
}

StateComparison to_comparison(const std::optional<std::string>& difference) {
  if (difference) return {Sameness::different, *difference};
  return {Sameness::identical, ""};
}

StateComparison compare_section(const fs::path& expected, const fs::path& found,
                                const checkpoint::Section& section) {
  const auto last_of = [](const fs::path& run_dir) {
    return checkpoint::Store(run_dir / "checkpoints").pointed(checkpoint::Link::last);
  };
  const auto wanted = last_of(expected);
  const auto got = last_of(found);
  if (!wanted || !got) return {Sameness::unknown, "one of the runs has no last checkpoint"};
  try {
    return to_comparison(checkpoint::first_difference(*wanted, *got, section));
  } catch (const Error& error) {
    return {Sameness::different, one_line(error.what())};
  }
}

BatchDigests batch_digests(const std::vector<const report::RunRecord*>& records) {
  BatchDigests digests;
  for (const report::RunRecord* record : records) {
    for (const events::EpochEnded& epoch : record->epochs) {
      if (!epoch.data_digest.empty()) digests.epochs[epoch.epoch] = epoch.data_digest;
    }
    const auto finished = record->finished.find(0);
    if (finished != record->finished.end()) digests.run = finished->second.data_digest;
  }
  return digests;
}

StateComparison compare(const BatchDigests& expected, const BatchDigests& found) {
  std::size_t compared = 0;
  for (const auto& [epoch, digest] : expected.epochs) {
    const auto at = found.epochs.find(epoch);
    if (at == found.epochs.end()) continue;
    ++compared;
    if (at->second != digest)
      return {Sameness::different,
              fmt::format("epoch {}: hash {}, expected {}", epoch + 1, at->second, digest)};
  }
  if (!found.run.empty() && !expected.run.empty()) {
    ++compared;
    if (found.run != expected.run)
      return {Sameness::different,
              fmt::format("whole run: hash {}, expected {}", found.run, expected.run)};
  }
  if (compared == 0) return {Sameness::unknown, "no epoch has a hash of its batches in both runs"};
  return {Sameness::identical, ""};
}

std::vector<std::string> comparable_run_overrides() {
  return {"++trainer.log_every_n_steps=1",
          "++trainer.max_time=~",
          "++trainer.max_restarts=0",
          "++trainer.on_divergence=[]",
          "++trainer.benchmark=false",  // another process would choose other kernels
          "++profiler=~",
          "++checkpoint.save_last=true",
          "++checkpoint.save_weights_only=false",
          "++checkpoint.every_t=~"};
}

std::vector<std::string> measured_overrides(const events::RunStarted& began) {
  return {fmt::format("++trainer.num_threads={}", began.num_threads),
          fmt::format("++trainer.channels_last={}", began.channels_last)};
}

report::ResumeCheck verify_resume(const RunRequest& request, const VerifyResumeOptions& options,
                                  const Clock& clock) {
  return ResumeVerifier(request, options, clock).execute();
}

std::vector<std::int64_t> draw_kill_points(std::uint64_t seed, int kills, StepRange range) {
  ENSURE(config, std::cmp_less_equal(kills, range.last - range.first + 1),
         "--kills must be at most {}, the number of steps at which the run can be killed, got "
         "{}\nhint: train longer or reduce --kills",
         with_thousands(std::max<std::int64_t>(range.last - range.first + 1, 0)), kills);
  CounterRng rng(seed, 0, 0, kOperation);
  const auto steps = static_cast<std::uint64_t>(range.last - range.first + 1);
  std::vector<std::int64_t> points;
  while (std::cmp_less(points.size(), kills)) {
    const std::int64_t step = range.first + static_cast<std::int64_t>(rng.below(steps));
    if (std::ranges::find(points, step) == points.end()) points.push_back(step);
  }
  return points;
}

std::int64_t checkpoint_interval(std::int64_t steps, std::int64_t steps_per_epoch) {
  constexpr std::int64_t kCheckpoints = 11;
  const std::int64_t every = std::max<std::int64_t>(steps / kCheckpoints, 1);
  const bool at_ends = every > 1 && steps_per_epoch > 0 && every % steps_per_epoch == 0;
  return at_ends ? every - 1 : every;
}

void ProcessKiller::on_event(int rank, const events::Event& event) {
  if (const auto* hello = std::get_if<events::Hello>(&event))
    processes_[rank] = static_cast<pid_t>(hello->pid);
  if (!has_killed_ && step_of(event) >= step_) kill_processes();
}

void ProcessKiller::kill_processes() {
  has_killed_ = true;
  for (const auto& [rank, process] : processes_) {
    if (process > 1 && (!rank_ || *rank_ == rank)) ::kill(process, SIGKILL);
  }
}

}  // namespace trainctl::study
