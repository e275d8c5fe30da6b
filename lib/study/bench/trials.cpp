#include "study/bench/trials.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "launch/supervise/verdict.hpp"

#include <csignal>

namespace trainctl::study {
namespace {

constexpr std::size_t kMostSettings = 1000;
constexpr const char* kStrategy = "distributed.type";  // "strategy" in Lightning

double to_number(const std::string& key, const std::string& text) {
  const auto value = parse_number<double>(text);
  ENSURE(config, value, "{}: '{}' in range() is not a number", printable(key), printable(text));
  return *value;
}

std::vector<std::string> range_values(const std::string& key, std::string_view arguments) {
  const std::vector<std::string> parts = split_values(arguments);
  ENSURE(config, parts.size() == 2 || parts.size() == 3,
         "{}: range() takes start, stop and optionally a step, got {}", printable(key),
         printable(arguments));
  const double start = to_number(key, parts[0]);
  const double stop = to_number(key, parts[1]);
  const double step = parts.size() == 3 ? to_number(key, parts[2]) : 1;
  ENSURE(config, step > 0 && stop > start,
         "{}: range({}) is empty\nhint: use a step above 0 and a stop above the start",
         printable(key), printable(arguments));
  std::vector<std::string> values;
  for (std::size_t i = 0; start + static_cast<double>(i) * step < stop; ++i) {
    ENSURE(config, i < kMostSettings, "{}: range({}) has more than {} values", printable(key),
           printable(arguments), kMostSettings);
    values.push_back(fmt::format("{}", start + static_cast<double>(i) * step));
  }
  return values;
}

// Returns the last component of each key, or the whole keys if two last components are equal.
std::vector<std::string> short_names(std::span<const Axis> axes) {
  std::vector<std::string> names;
  for (const Axis& axis : axes) {
    const bool is_strategy = axis.key == kStrategy;
    names.push_back(is_strategy ? "strategy" : axis.key.substr(axis.key.rfind('.') + 1));
  }
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) == sorted.end()) return names;
  names.clear();
  for (const Axis& axis : axes) names.push_back(axis.key);
  return names;
}

void check_axes(std::span<const Axis> axes) {
  std::size_t count = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    count *= axes[i].values.size();
    ENSURE(config, count <= kMostSettings, "the grid has more than {} combinations", kMostSettings);
    const auto same = std::ranges::count(axes, axes[i].key, &Axis::key);
    ENSURE(config, same == 1, "{} is given twice\nhint: put all its values in one list",
           printable(axes[i].key));
  }
}

constexpr const char* kDevices = "trainer.devices";
constexpr const char* kBatchSize = "loader.batch_size";

using Value = std::pair<std::string, std::string>;

std::string& value_of(Setting& setting, const std::string& key) {
  const auto found = std::ranges::find(setting.values, key, &Value::first);
  if (found != setting.values.end()) return found->second;
  return setting.values.emplace_back(key, "").second;
}

bool was_stopped(const report::BenchRow& row) {
  return row.failure && launch::is_stop_code(row.failure->exit_code);
}

/// Adds the run to its row; returns false if the run was stopped or exceeded the budget.
bool add_result(report::BenchRow& row, TrialResult result, const std::string& which) {
  if (auto* trial = std::get_if<report::Trial>(&result)) {
    row.trials.push_back(std::move(*trial));
    return true;
  }
  auto failure = std::get<report::TrialFailure>(std::move(result));
  if (failure.overdue) return false;
  row.failure = std::move(failure);
  row.failure->message = fmt::format("{} ({}): {}", row.technique, which, row.failure->message);
  return !was_stopped(row);
}

class Budget {
 public:
  explicit Budget(const Rounds& rounds) : rounds_(rounds) {}

  bool allows_round(int repeat) {
    if (!rounds_.ends_at) return true;
    const double now = rounds_.clock->now();
    if (repeat > 0) longest_s_ = std::max(longest_s_, now - began_);
    began_ = now;
    return repeat == 0 || now + longest_s_ <= *rounds_.ends_at;
  }

  [[nodiscard]] bool allows_run(int repeat) const {
    return repeat > 0 || !rounds_.ends_at || rounds_.clock->now() <= *rounds_.ends_at;
  }

 private:
  const Rounds& rounds_;
  double began_ = 0;
  double longest_s_ = 0;
};

/// A second attempt or a restart would be included in the measured time.
RunRequest one_attempt(RunRequest request) {
  request.loaded.experiment.trainer.max_restarts = 0;
  request.loaded.experiment.trainer.on_divergence.clear();
  return request;
}

class DeadlineSink : public report::Sink {
 public:
  DeadlineSink(double at, std::shared_ptr<bool> expired) : at_(at), expired_(std::move(expired)) {}

  void on_event(int /*rank*/, const events::Event& /*event*/) override {}

  // An exception from here ends the job.
  void on_tick(double now) override {
    if (now < at_ || *expired_) return;
    *expired_ = true;
    throw Error(ErrorKind::hang, "the run was killed because it exceeded its time limit");
  }

  void close() override {}

 private:
  double at_;
  std::shared_ptr<bool> expired_;
};

/// Passes the steps of rank 0 to a function.
class StepListener final : public report::Sink {
 public:
  explicit StepListener(const OnStep& on_step) : on_step_(on_step) {}

  void on_event(int rank, const events::Event& event) override {
    const auto* logged = std::get_if<events::StepLogged>(&event);
    if (rank == 0 && logged != nullptr) on_step_(*logged);
  }
  void on_tick(double /*now*/) override {}
  void close() override {}

 private:
  const OnStep& on_step_;
};

}  // namespace

std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{' || c == '(') {
      ++depth;
    } else if (c == ']' || c == '}' || c == ')') {
      --depth;
    }
    if (c == ',' && depth == 0 && quote == 0) {
      values.emplace_back();
    } else {
      values.back() += c;
    }
  }
  for (std::string& value : values) value = trimmed(value, " ");
  return values;
}

std::optional<std::string_view> call_of(std::string_view text, std::string_view name) {
  if (!text.starts_with(name) || text.size() < name.size() + 2) return std::nullopt;
  if (text[name.size()] != '(' || text.back() != ')') return std::nullopt;
  return text.substr(name.size() + 1, text.size() - name.size() - 2);
}

Axis parse_axis(std::string key, std::string_view values) {
  Axis axis{std::move(key), {}};
  values = trimmed(values, " ");
  if (const auto range = call_of(values, "range")) {
    axis.values = range_values(axis.key, *range);
  } else {
    axis.values = split_values(call_of(values, "choice").value_or(values));
  }
  for (const std::string& value : axis.values) {
    ENSURE(config, !value.empty(), "{}: '{}' has an empty value\nhint: give a list such as 0,4,8",
           printable(axis.key), printable(values));
    ENSURE(config, std::ranges::count(axis.values, value) == 1, "{}: the value {} is given twice",
           printable(axis.key), printable(value));
  }
  return axis;
}

Axis parse_grid(std::string_view text) {
  const std::size_t equals = text.find('=');
  ENSURE(config, equals != text.npos && equals > 0,
         "'{}' must have the form key=a,b, such as optimizer.lr=0.1,0.01", printable(text));
  return parse_axis(std::string(trimmed(text.substr(0, equals), " ")), text.substr(equals + 1));
}

std::vector<std::string> Setting::overrides() const {
  std::vector<std::string> texts;
  for (const auto& [key, value] : values) texts.push_back(key + "=" + value);
  return texts;
}

std::vector<Setting> product(std::span<const Axis> axes) {
  check_axes(axes);
  const std::vector<std::string> names = short_names(axes);
  std::vector<Setting> settings(1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::vector<Setting> longer;
    for (const Setting& setting : settings) {
      for (const std::string& value : axes[i].values) {
        Setting next = setting;
        next.technique +=
            fmt::format("{}{}={}", next.technique.empty() ? "" : ", ", names[i], value);
        if (axes[i].key == kStrategy && value == "data_parallel")
          next.technique += " (slower by design)";
        next.values.emplace_back(axes[i].key, value);
        longer.push_back(std::move(next));
      }
    }
    settings = std::move(longer);
  }
  if (axes.empty()) settings.front().technique = "as configured";
  return settings;
}

std::optional<int> devices_of(const Setting& setting) {
  const auto found = std::ranges::find(setting.values, kDevices, &Value::first);
  if (found == setting.values.end()) return std::nullopt;
  const std::string& text = found->second;
  const auto number = parse_number<int>(text);
  ENSURE(config, number && *number >= 1,
         "with --scaling, --devices must be numbers, got '{}'\nhint: list numbers, as in --devices "
         "1,2",
         printable(text));
  return number;
}

void keep_global_batch(std::vector<Setting>& settings, const BatchOf& batch_of) {
  std::optional<int> base;
  for (Setting& setting : settings) {
    const auto devices = devices_of(setting);
    ENSURE(config, devices.has_value(),
           "--scaling needs numbers of devices to compare\nhint: add them, as in --devices 1,2");
    if (!base) base = devices;
    Setting first = setting;
    value_of(first, kDevices) = std::to_string(*base);
    const std::int64_t batch = batch_of(first);
    const std::int64_t samples = batch * *base;
    ENSURE(
        config, samples % *devices == 0,
        "--scaling strong keeps the {} samples of a step ({} on {} device{}), which do not divide "
        "evenly among {} devices\nhint: choose a loader.batch_size that is a multiple of {}, or "
        "--scaling weak",
        samples, batch, *base, plural(*base), *devices, *devices);
    value_of(setting, kBatchSize) = std::to_string(samples / *devices);
  }
}

std::vector<report::BenchRow> run_rounds(std::span<const Setting> settings, const Rounds& rounds,
                                         const RunTrial& run_trial) {
  std::vector<report::BenchRow> rows;
  for (const Setting& setting : settings)
    rows.push_back({setting.technique, setting.values, {}, {}});
  Budget budget(rounds);
  for (int repeat = 0; repeat < rounds.repeats && budget.allows_round(repeat); ++repeat) {
    const std::string which = fmt::format("run {} of {}", repeat + 1, rounds.repeats);
    for (std::size_t turn = 0; turn < settings.size(); ++turn) {
      const std::size_t i = repeat % 2 == 0 ? turn : settings.size() - 1 - turn;
      if (rows[i].failure) continue;
      if (!budget.allows_run(repeat) || !add_result(rows[i], run_trial(i, repeat), which))
        return rows;
    }
  }
  return rows;
}

bool is_whole_round(std::span<const report::BenchRow> rows) {
  return std::ranges::all_of(rows, [](const report::BenchRow& row) {
    return !row.trials.empty() || row.failure.has_value();
  });
}

std::string budget_note(std::span<const report::BenchRow> rows, int repeats,
                        const std::string& budget) {
  auto least = static_cast<std::size_t>(repeats);
  for (const report::BenchRow& row : rows) {
    if (!row.failure) least = std::min(least, row.trials.size());
  }
  if (budget.empty() || least == static_cast<std::size_t>(repeats)) return "";
  return fmt::format("The budget of {} left time for {} of {} repeats.\n", printable(budget), least,
                     repeats);
}

int exit_code_of(std::span<const report::BenchRow> rows) {
  int code = 0;
  for (const report::BenchRow& row : rows) {
    if (was_stopped(row)) return row.failure->exit_code;
    if (row.failure && code == 0) code = row.failure->exit_code;
  }
  return code;
}

report::TrialFailure failure_of(const RunOutcome& run) {
  const report::RunResult& ending = run.ending;
  const std::string cause =
      ending.message.empty() ? "the run ended as " + ending.verdict : ending.message;
  return {.exit_code = ending.exit_code,
          .message = with_reference(cause, run.folder.string()),
          .killed = ending.first_failure && ending.first_failure->signal == SIGKILL};
}

TrialResult run_trial(const RunRequest& request, const Clock& clock,
                      std::optional<double> ends_at) {
  const Deadline deadline(ends_at);
  try {
    const RunOutcome run = run_experiment(
        one_attempt(request), [&](const fs::path& /*run_dir*/) { return deadline.sinks(); }, clock);
    if (run.ending.exit_code == 0) return report::trial_of(run.record, run.ending.wall_s);
    report::TrialFailure failure = failure_of(run);
    failure.overdue = deadline.has_expired();
    return failure;
  } catch (const Error& error) {
    // The folder could not be created; the earlier runs are still worth a table.
    return report::TrialFailure{error.exit_code(), error.what()};
  }
}

WarmUp warm_up(const RunRequest& request, const Clock& clock, std::optional<double> ends_at) {
  const Deadline deadline(ends_at);
  const RunOutcome run = run_experiment(
      one_attempt(request), [&](const fs::path& /*run_dir*/) { return deadline.sinks(); }, clock);
  WarmUp found{.threads = {},
               .channels_last = {},
               .taken = 0,
               .stopped = {},
               .overdue = deadline.has_expired()};
  if (launch::is_stop_code(run.ending.exit_code)) found.stopped = run.ending.exit_code;
  if (run.record.started) {
    found.threads = run.record.started->num_threads;
    found.channels_last = run.record.started->channels_last;
    found.taken = run.record.started->num_threads_taken;
  }
  return found;
}

RunOutcome run_with(const RunRequest& request, const OnStep& on_step, const Clock& clock) {
  const auto make_sinks = [&](const fs::path& /*run_dir*/) {
    Sinks sinks;
    sinks.push_back(std::make_unique<StepListener>(on_step));
    return sinks;
  };
  return run_experiment(request, make_sinks, clock);
}

Sinks Deadline::sinks() const {
  Sinks sinks;
  if (at_) sinks.push_back(std::make_unique<DeadlineSink>(*at_, expired_));
  return sinks;
}

std::vector<std::string> short_run(int steps) {
  return {"++early_stopping=~",
          "++metrics=[]",
          "++dataset.val=~",
          "++profiler=~",
          "++checkpoint={monitor: train/loss, save_top_k: 0, save_last: false}",
          "++trainer.max_epochs=~",
          "++trainer.max_time=~",
          fmt::format("++trainer.max_steps={}", steps),
          "++trainer.log_every_n_steps=1",
          "++trainer.log_norms=false",
          "++trainer.log_layer_norms=false",
          "++trainer.num_sanity_val_steps=0",
          "++trainer.fast_dev_run=false",
          "++trainer.test=false",
          "++trainer.on_divergence=[]",
          "++trainer.max_restarts=0",
          "++trainer.ema=~",
          "++trainer.swa=~"};
}

}  // namespace trainctl::study
