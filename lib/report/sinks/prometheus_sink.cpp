#include "report/sinks/prometheus_sink.hpp"

#include "base/error.hpp"
#include "base/files.hpp"

#include <cmath>

namespace trainctl::report {
namespace {

std::string sample_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

/// Replaces invalid UTF-8 by U+FFFD, because the collector rejects a whole file with a single
/// invalid byte.
std::string valid_utf8(const std::string& text) {
  std::string valid;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(std::string_view(text).substr(i));
    valid += length > 0 ? text.substr(i, length) : "\xef\xbf\xbd";
    i += length > 0 ? length : 1;
  }
  return valid;
}

enum class Quotes { bare, escaped };

std::string escaped(const std::string& text, Quotes quotes) {
  std::string written;
  for (const char c : valid_utf8(text)) {
    if (c == '\\') {
      written += "\\\\";
    } else if (c == '\n') {
      written += "\\n";
    } else if (c == '"' && quotes == Quotes::escaped) {
      written += "\\\"";
    } else {
      written += c;
    }
  }
  return written;
}

std::string labels_text(const PrometheusLabels& common, const PrometheusLabels& own) {
  std::string text;
  for (const PrometheusLabels* labels : {&common, &own}) {
    for (const auto& [name, value] : *labels)
      text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name,
                          escaped(value, Quotes::escaped));
  }
  return text.empty() ? "" : "{" + text + "}";
}

using Type = PrometheusType;

constexpr double kMebibyte = 1024.0 * 1024;
constexpr double kReportAgain = 600;

struct RankTimes {
  double step_s = 0;
  double data_wait_s = 0;
};

/// The current state of the run.
struct State {
  double started = 0;
  std::optional<double> ended;
  std::optional<double> exit_code;
  int restarts = 0;
  std::optional<events::RunStarted> run;
  std::optional<events::EpochEnded> epoch;
  std::int64_t epochs = 0;  // number of complete epochs
  std::int64_t step = 0;
  std::optional<double> loss;
  std::optional<double> lr;
  std::map<int, RankTimes> ranks;
  std::optional<double> saved_at;
  std::optional<std::int64_t> saved_step;
  std::int64_t warnings = 0;
};

template <class Number>
PrometheusMetric one(std::string name, std::string help, Number value, Type type = Type::gauge) {
  return {
      std::move(name), std::move(help), type, {PrometheusSample{{}, static_cast<double>(value)}}};
}

template <class Number>
PrometheusMetric maybe(std::string name, std::string help, const std::optional<Number>& value) {
  if (!value) return {};
  return one(std::move(name), std::move(help), *value);
}

std::vector<PrometheusMetric> of_run(const State& state, double now) {
  return {
      one("trainctl_up", "1 while the run is active, 0 once it has ended.", state.ended ? 0 : 1),
      one("trainctl_start_timestamp_seconds", "Time when this attempt of the run started.",
          state.started),
      one("trainctl_last_update_timestamp_seconds",
          "Time when this file was written; if it is old while trainctl_up is 1, the supervisor is "
          "gone.",
          now),
      maybe("trainctl_end_timestamp_seconds", "Time when the run ended.", state.ended),
      maybe("trainctl_exit_code", "Exit code of the run, once it has ended.", state.exit_code),
      one("trainctl_restarts_total", "Restarts of the run.", state.restarts, Type::counter),
      one("trainctl_warnings_total", "Warnings in this attempt.", state.warnings, Type::counter)};
}

std::vector<PrometheusMetric> of_training(const State& state) {
  std::optional<std::int64_t> planned;
  if (state.run && state.run->max_epochs > 0) planned = state.run->max_epochs;
  std::optional<int> world;
  if (state.run) world = state.run->world_size;
  return {one("trainctl_step_total", "Optimizer steps done.", state.step, Type::counter),
          one("trainctl_epoch", "Epochs that are complete.", state.epochs),
          maybe("trainctl_epochs_planned", "Epochs after which the run ends.", planned),
          maybe("trainctl_world_size", "Ranks of the run.", world),
          maybe("trainctl_loss", "Newest training loss.", state.loss),
          maybe("trainctl_learning_rate", "Newest learning rate.", state.lr),
          maybe("trainctl_last_checkpoint_timestamp_seconds",
                "Time when the newest checkpoint was verified.", state.saved_at),
          maybe("trainctl_last_checkpoint_step", "Step of the newest verified checkpoint.",
                state.saved_step)};
}

PrometheusMetric epoch_parts(const events::Timing& timing) {
  PrometheusMetric parts{"trainctl_epoch_seconds", "Seconds of the last epoch, by part."};
  parts.samples.push_back({{{"part", "wall"}}, timing.wall_s});
  for (const events::TimingPhase& phase : events::kTimingPhases) {
    const std::string_view key = phase.key;
    const std::string name(key.substr(0, key.size() - 2));
    parts.samples.push_back({{{"part", name}}, timing.*phase.seconds});
  }
  return parts;
}

std::vector<PrometheusMetric> of_epoch(const events::EpochEnded& epoch) {
  const events::Timing& timing = epoch.timing;
  PrometheusMetric metrics{"trainctl_metric", "Metrics of the last epoch."};
  for (const auto& [name, value] : epoch.metrics)
    metrics.samples.push_back({{{"metric", name}}, value});
  std::optional<double> gpu_share;
  if (timing.gpu_util) gpu_share = *timing.gpu_util / 100;
  std::optional<double> gpu_bytes;
  if (timing.gpu_mem_mb) gpu_bytes = *timing.gpu_mem_mb * kMebibyte;
  return {
      metrics,
      epoch_parts(timing),
      one("trainctl_samples_per_second", "Training samples per second in the last epoch.",
          timing.samples_per_s),
      one("trainctl_cpu_ratio", "CPU cores that rank 0 kept busy in the last epoch.",
          timing.cpu_percent / 100),
      one("trainctl_resident_memory_bytes", "Highest memory of rank 0.", timing.rss_mb * kMebibyte),
      maybe("trainctl_gpu_utilisation_ratio", "Share of the last epoch with a busy GPU.",
            gpu_share),
      maybe("trainctl_gpu_memory_bytes", "Highest memory on the GPU of rank 0.", gpu_bytes)};
}

std::vector<PrometheusMetric> of_ranks(const std::map<int, RankTimes>& ranks) {
  PrometheusMetric steps{"trainctl_rank_step_seconds",
                         "Mean compute time of a step on a rank in the last epoch."};
  PrometheusMetric waits{"trainctl_rank_data_wait_seconds",
                         "Mean wait for data of a step on a rank in the last epoch."};
  for (const auto& [rank, times] : ranks) {
    const PrometheusLabels label{{"rank", std::to_string(rank)}};
    steps.samples.push_back({label, times.step_s});
    waits.samples.push_back({label, times.data_wait_s});
  }
  return {steps, waits};
}

class PrometheusSink final : public Sink {
 public:
  explicit PrometheusSink(PrometheusOptions options) : options_(std::move(options)) {
    state_.started = options_.wall_time();
    state_.restarts = options_.restarts;
    write();
  }

  void on_event(int rank, const events::Event& event) override {
    if (std::holds_alternative<events::Warning>(event)) ++state_.warnings;
    if (const auto* epoch = std::get_if<events::RankEpoch>(&event)) note(*epoch);
    if (rank == 0) std::visit([this](const auto& known) { note(known); }, event);
  }

  void on_tick(double now) override {
    now_ = now;
    if (now < next_) return;
    next_ = now + options_.every_s;
    write();
  }

  void close() override {}

  void on_end(const Json& result) override {
    state_.ended = options_.wall_time();
    const auto code = result.find("exit_code");
    if (code != result.end() && code->is_number_integer()) state_.exit_code = code->get<double>();
    const auto restarts = result.find("restarts");
    if (restarts != result.end() && restarts->is_number_integer())
      state_.restarts = std::max(state_.restarts, restarts->get<int>());
    write();
  }

  std::optional<std::string> take_warning() override {
    if (failure_.empty() || now_ < next_report_) return std::nullopt;
    next_report_ = now_ + kReportAgain;
    return failure_ + "; the run continues, and Prometheus sees stale metrics";
  }

 private:
  template <class Other>
  void note(const Other& /*event*/) {}
  void note(const events::RunStarted& run) { state_.run = run; }
  void note(const events::Resumed& resumed) {
    state_.step = resumed.global_step;
    state_.epochs = resumed.epoch;
  }
  void note(const events::Progress& progress) {
    state_.step = std::max(state_.step, progress.global_step);
    if (progress.loss) state_.loss = progress.loss;
  }
  void note(const events::StepLogged& step) {
    state_.step = std::max(state_.step, step.global_step);
    state_.loss = step.loss;
    state_.lr = step.lr;
  }
  void note(const events::CheckpointSaved& saved) {
    if (!saved.verified) return;
    state_.saved_at = options_.wall_time();
    state_.saved_step = saved.global_step;
  }
  void note(const events::RankEpoch& epoch) {
    const auto steps = static_cast<double>(epoch.steps);
    if (steps > 0 && !std::isnan(epoch.step_s))
      state_.ranks[epoch.rank] = {epoch.step_s / steps, epoch.data_wait_s / steps};
  }
  void note(const events::EpochEnded& epoch) {
    state_.epoch = epoch;
    state_.epochs = epoch.epoch + 1;
    state_.step = std::max(state_.step, epoch.global_step);
    state_.lr = epoch.lr;
    write();
  }

  [[nodiscard]] std::string text() const {
    std::vector<PrometheusMetric> all{{"trainctl_run_info",
                                       "Labels that describe the run.",
                                       Type::gauge,
                                       {PrometheusSample{options_.info, 1}}}};
    const auto add = [&](std::vector<PrometheusMetric> some) {
      all.insert(all.end(), some.begin(), some.end());
    };
    add(of_run(state_, options_.wall_time()));
    add(of_training(state_));
    if (state_.epoch) add(of_epoch(*state_.epoch));
    add(of_ranks(state_.ranks));
    return prometheus_text(all, {{"run", options_.run}, {"host", options_.host}});
  }

  void write() {
    try {
      write_atomically(options_.file, text());
      failure_.clear();
      next_report_ = 0;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::resource) throw;
      failure_ = without_hint(error.what());
    }
  }

  PrometheusOptions options_;
  State state_;
  double now_ = 0;
  double next_ = 0;
  std::string failure_;  // of the last write; empty: it succeeded
  double next_report_ = 0;
};

}  // namespace

std::string prometheus_text(std::span<const PrometheusMetric> metrics,
                            const PrometheusLabels& common) {
  std::string text;
  for (const PrometheusMetric& metric : metrics) {
    if (metric.samples.empty()) continue;
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", metric.name,
                        escaped(metric.help, Quotes::bare),
                        metric.type == PrometheusType::counter ? "counter" : "gauge");
    for (const PrometheusSample& sample : metric.samples)
      text += fmt::format("{}{} {}\n", metric.name, labels_text(common, sample.labels),
                          sample_text(sample.value));
  }
  return text;
}

std::unique_ptr<Sink> make_prometheus_sink(PrometheusOptions options) {
  return std::make_unique<PrometheusSink>(std::move(options));
}

}  // namespace trainctl::report
