#include "report/compare/bench.hpp"

#include "base/numbers.hpp"
#include "report/diagnosis/bottleneck.hpp"
#include "report/diagnosis/ranks.hpp"

namespace trainctl::report {
namespace {

template <class Value>
std::vector<double> each(const BenchRow& row, const Value& value) {
  std::vector<double> values;
  for (const Trial& trial : row.trials) values.push_back(std::invoke(value, trial));
  return values;
}

std::vector<double> median_epochs(const BenchRow& row) {
  std::size_t epochs = 0;
  for (const Trial& trial : row.trials) epochs = std::max(epochs, trial.epoch_s.size());
  std::vector<double> medians;
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    std::vector<double> values;
    for (const Trial& trial : row.trials) {
      if (epoch < trial.epoch_s.size()) values.push_back(trial.epoch_s[epoch]);
    }
    medians.push_back(median(values));
  }
  return medians;
}

// NaN equals NaN here, because a run that diverges in the same way is the same run.
bool same_numbers(const std::vector<double>& a, const std::vector<double>& b) {
  const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  return std::ranges::equal(a, b, same);
}

std::optional<bool> same_losses(const BenchRow& base, const BenchRow& row) {
  if (base.trials.empty() || row.trials.empty() || base.trials.front().losses.empty())
    return std::nullopt;
  const std::vector<double>& wanted = base.trials.front().losses;
  return std::ranges::all_of(
      row.trials, [&](const Trial& trial) { return same_numbers(trial.losses, wanted); });
}

RowSummary summarize_row(const BenchRow& base, const BenchRow& row) {
  return {.total_s = quartiles(each(row, &Trial::total_s)),
          .epoch_s = median_epochs(row),
          .steady_epoch_s = median(each(row, steady_epoch_s)),
          .startup_s = median(each(row, &Trial::startup_s)),
          .first_batch_s = median(each(row, &Trial::first_batch_s)),
          .rss_mb = median(each(row, &Trial::rss_mb)),
          .samples_per_s = median(each(row, &Trial::samples_per_s)),
          .speedup = speedup(each(base, &Trial::total_s), each(row, &Trial::total_s)),
          .epoch_speedup = speedup(each(base, steady_epoch_s), each(row, steady_epoch_s)),
          .same_batches = same_batches(base, row),
          .same_losses = same_losses(base, row)};
}

std::string duration_text(double seconds) {
  return std::isfinite(seconds) ? human_duration(seconds) : "-";
}

// Uses seconds for all values, so that a median and its quartiles have the same unit.
std::string seconds_text(double seconds) {
  return fmt::format("{:.{}f}", seconds, seconds < 10 ? 2 : 1);
}

std::string total_text(const BenchRow& row, const Quartiles& total) {
  if (row.trials.empty() && row.failure)
    return fmt::format("failed (exit {})", row.failure->exit_code);
  if (!std::isfinite(total.median)) return "-";
  return fmt::format("{} s [{}, {}]", seconds_text(total.median), seconds_text(total.q1),
                     seconds_text(total.q3));
}

std::string interval_note(std::size_t repeats) {
  if (repeats < kFewestPairs) return "; an interval needs at least 3 repeats";
  return ", with a 95 % confidence interval (Student's t on the logarithms of the ratios)";
}

/// Returns whether the losses are bitwise equal, or how close they are if sums were computed in
/// another order.
std::string losses_text(const BenchRow& base, const BenchRow& row, const RowSummary& summary) {
  if (!summary.same_losses || *summary.same_losses) return same_text(summary.same_losses);
  const std::string text = loss_text(loss_gap(base, row));
  return text.starts_with("within") ? text : "differ";
}

std::string final_loss(const BenchRow& row) {
  const bool none = row.trials.empty() || row.trials.front().losses.empty();
  return none ? "-" : metric_text(row.trials.front().losses.back());
}

std::size_t most_repeats(std::span<const BenchRow> rows) {
  std::size_t most = 0;
  for (const BenchRow& row : rows) most = std::max(most, row.trials.size());
  return most;
}

std::string memory_text(double mb) { return mb > 0 ? with_thousands(std::llround(mb)) : "-"; }

/// Returns the indices of at most ten epochs, including the first and the last.
std::vector<std::size_t> shown_epochs(std::span<const BenchRow> rows) {
  constexpr std::size_t kMost = 10;
  std::size_t epochs = 0;
  for (const BenchRow& row : rows) {
    if (!row.trials.empty()) epochs = std::max(epochs, row.trials.front().losses.size());
  }
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < std::min(epochs, kMost); ++i)
    shown.push_back(epochs <= kMost ? i : i * (epochs - 1) / (kMost - 1));
  return shown;
}

Json identical_json(const RowSummary& summary) {
  if (summary.same_losses == false || summary.same_batches == false) return false;
  return summary.same_losses && summary.same_batches ? Json(true) : Json(nullptr);
}

/// Returns null if it was not measured.
Json memory_json(double mb) { return mb > 0 ? json_number(mb) : Json(nullptr); }

Json trial_json(const Trial& trial) {
  return joined({JSON_FIELDS(trial, total_s, epoch_s, startup_s, first_batch_s, samples_per_s),
                 {{"rss_mb", memory_json(trial.rss_mb)}},
                 JSON_FIELDS(trial, gpu_mem_mb, exposed_s),
                 {{"taken_cores", json_number(trial.taken)}, {"loss", json_value(trial.losses)}},
                 JSON_FIELDS(trial, metrics, data_digest)});
}

Json row_json(const BenchRow& row, const RowSummary& summary) {
  Json settings = Json::object();
  for (const auto& [key, value] : row.settings) settings[key] = value;
  const bool ran = !row.trials.empty();
  const auto failure_json = [](const TrialFailure& failure) -> Json {
    return {{"exit_code", failure.exit_code},
            {"message", without_hint(failure.message)},
            {"hint", hint_of(failure.message)}};
  };
  return joined({{{"technique", row.technique}, {"settings", settings}},
                 JSON_FIELDS(summary, total_s, epoch_s, samples_per_s, speedup),
                 {{"loss", ran ? json_value(row.trials.front().losses) : Json::array()},
                  {"data_digest", ran ? row.trials.front().data_digest : ""},
                  {"identical", identical_json(summary)}},
                 JSON_FIELDS(summary, same_batches, same_losses, steady_epoch_s, epoch_speedup,
                             startup_s, first_batch_s),
                 {{"rss_mb", memory_json(summary.rss_mb)},
                  {"repeats_s", json_value(each(row, &Trial::total_s))},
                  {"trials", json_list(row.trials, trial_json)},
                  {"failure", or_null(row.failure, failure_json)}}});
}

/// Returns the names in order of appearance.
std::vector<std::string> trial_metrics(std::span<const BenchRow> rows) {
  std::vector<std::string> names;
  for (const BenchRow& row : rows) {
    for (const Trial& trial : row.trials) {
      for (const auto& [name, value] : trial.metrics) add_new(names, name);
    }
  }
  return names;
}

std::string optional_text(const std::optional<double>& value) {
  return value ? exact_text(*value) : std::string();
}

void add_trial(Table& table, const BenchRow& row, std::size_t repeat,
               std::span<const std::string> metrics) {
  const Trial& trial = row.trials[repeat];
  std::vector<std::string> cells{row.technique};
  for (const auto& [key, value] : row.settings) cells.push_back(value);
  cells.insert(cells.end(), {std::to_string(repeat + 1), exact_text(trial.total_s),
                             exact_text(trial.startup_s), exact_text(trial.first_batch_s),
                             exact_text(steady_epoch_s(trial)), exact_text(trial.samples_per_s),
                             trial.rss_mb > 0 ? exact_text(trial.rss_mb) : std::string(),
                             optional_text(trial.gpu_mem_mb), optional_text(trial.exposed_s)});
  for (const std::string& name : metrics)
    cells.push_back(optional_text(events::find_metric(trial.metrics, name)));
  cells.push_back(trial.data_digest);
  table.add(std::move(cells));
}

/// Returns the relative difference of two losses; 0 if they are equal, NaN if only one is finite.
double relative_gap(double wanted, double found) {
  if (wanted == found || (std::isnan(wanted) && std::isnan(found))) return 0;
  if (!std::isfinite(wanted) || !std::isfinite(found)) return std::nan("");
  const double larger = std::max(std::abs(wanted), std::abs(found));
  return std::abs(wanted - found) / larger;
}

/// Adds the ranks' waits to the trial.
void add_ranks(const RunRecord& record, Trial& trial) {
  const std::vector<RankRow> ranks = rank_rows(record);
  const RankRow* last = slowest(ranks);
  if (last == nullptr) return;
  trial.slowest = SlowRank{last->rank, last->slowdown};
  std::vector<double> exposed;
  std::vector<double> steps;
  for (const RankRow& rank : ranks) {
    exposed.push_back(rank.exposed_s);
    steps.push_back(rank.step_s);
  }
  trial.exposed_s = mean(exposed);
  if (mean(steps) > 0) trial.exposed_share = mean(exposed) / mean(steps);
}

events::Metrics numbers_of(const Trial& trial) {
  events::Metrics measures{{"samples_per_s", trial.samples_per_s},
                           {"total_s", trial.total_s},
                           {"epoch_s", steady_epoch_s(trial)},
                           {"startup_s", trial.startup_s},
                           {"first_batch_s", trial.first_batch_s}};
  if (trial.rss_mb > 0) measures.emplace_back("rss_mb", trial.rss_mb);
  if (trial.gpu_mem_mb) measures.emplace_back("gpu_mem_mb", *trial.gpu_mem_mb);
  if (trial.exposed_s) measures.emplace_back("exposed_s", *trial.exposed_s);
  measures.insert(measures.end(), trial.metrics.begin(), trial.metrics.end());
  return measures;
}

}  // namespace

double steady_epoch_s(const Trial& trial) { return median(without_first<double>(trial.epoch_s)); }

std::vector<RowSummary> summarize(std::span<const BenchRow> rows) {
  std::vector<RowSummary> summaries;
  for (const BenchRow& row : rows) summaries.push_back(summarize_row(rows.front(), row));
  return summaries;
}

Table bench_table(std::span<const BenchRow> rows) {
  Table table({left("settings"), "total [quartiles]", "epoch", "samples/s", "speed-up [95 %]",
               "epoch speed-up", "final loss", left("batches"), left("losses")});
  const std::vector<RowSummary> summaries = summarize(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowSummary& row = summaries[i];
    const bool base = i == 0;
    const Speedup epoch{.value = row.epoch_speedup.value};
    table.add({printable(rows[i].technique), total_text(rows[i], row.total_s),
               duration_text(row.steady_epoch_s),
               rows[i].trials.empty() ? "-" : rate_text(row.samples_per_s),
               base ? "baseline" : gain_text(row.speedup), base ? "" : gain_text(epoch),
               final_loss(rows[i]), same_text(row.same_batches),
               losses_text(rows.front(), rows[i], row)});
  }
  return table;
}

Table epochs_table(std::span<const BenchRow> rows) {
  const std::vector<std::size_t> epochs = shown_epochs(rows);
  std::vector<Column> columns{left("settings"), "start-up", "first batch", "first epoch",
                              "peak MB"};
  for (const std::size_t epoch : epochs) columns.push_back({fmt::format("loss {}", epoch + 1)});
  Table table(columns);
  const std::vector<RowSummary> summaries = summarize(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowSummary& row = summaries[i];
    std::vector<std::string> cells{printable(rows[i].technique), duration_text(row.startup_s),
                                   duration_text(row.first_batch_s),
                                   row.epoch_s.empty() ? "-" : duration_text(row.epoch_s.front()),
                                   memory_text(row.rss_mb)};
    for (const std::size_t epoch : epochs) {
      const bool has_loss = !rows[i].trials.empty() && epoch < rows[i].trials.front().losses.size();
      cells.push_back(has_loss ? metric_text(rows[i].trials.front().losses[epoch]) : "-");
    }
    table.add(std::move(cells));
  }
  return table;
}

std::string contention_warning(std::span<const BenchRow> rows) {
  std::size_t runs = 0;
  std::size_t contended = 0;
  double most = 0;
  for (const BenchRow& row : rows) {
    for (const Trial& trial : row.trials) {
      ++runs;
      contended += trial.taken > 0 ? 1 : 0;
      most = std::max(most, trial.taken);
    }
  }
  if (contended == 0) return {};
  return fmt::format(
      "other processes used up to {:.0f} % of the cores during {} of {} runs, so intervals are "
      "wide, and speed-ups from threads or workers are underestimated",
      100 * most, contended, runs);
}

std::string bench_notes(std::span<const BenchRow> rows) {
  if (rows.empty()) return "";
  const std::size_t repeats = most_repeats(rows);
  std::string text = fmt::format(
      "{} interleaved run{} per row, each in new processes; total includes start-up ({}).\n",
      repeats, plural(repeats), duration_text(summarize(rows).front().startup_s));
  for (const BenchRow& row : rows) {
    if (row.failure) text += fmt::format("Failed: {}\n", one_line(row.failure->message));
  }
  const std::string base = printable(rows.front().technique);
  if (rows.size() > 1)
    text += fmt::format(
        "Speed-up: how many times as fast as '{}' in total time (geometric mean over pairs of "
        "runs){}.\n",
        base, interval_note(repeats));
  const bool warm = !rows.front().trials.empty() && rows.front().trials.front().epoch_s.size() > 1;
  text += warm ? "Epoch: the median time of an epoch, without the first epoch of a run. Epoch "
                 "speed-up: the speed-up in this time.\n"
               : "There is only one epoch, which includes warm-up.\n";
  text += fmt::format(
      "Final loss: train/loss of the last epoch. Batches and losses: whether they equal those of "
      "the first run of '{}'.\n",
      base);
  return text;
}

Table trials_table(std::span<const BenchRow> rows) {
  std::vector<Column> columns{left("technique")};
  if (!rows.empty())
    for (const auto& [key, value] : rows.front().settings) columns.push_back(key);
  columns.insert(columns.end(), {"repeat", "total_s", "startup_s", "first_batch_s", "epoch_s",
                                 "samples_per_s", "rss_mb", "gpu_mem_mb", "exposed_s"});
  const std::vector<std::string> metrics = trial_metrics(rows);
  columns.insert(columns.end(), metrics.begin(), metrics.end());
  columns.push_back({"data_digest"});
  Table table(columns);
  for (const BenchRow& row : rows) {
    for (std::size_t i = 0; i < row.trials.size(); ++i) add_trial(table, row, i, metrics);
  }
  return table;
}

Json bench_document(std::span<const BenchRow> rows, const BenchSetup& setup) {
  Json list = Json::array();
  const std::vector<RowSummary> summaries = summarize(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) list.push_back(row_json(rows[i], summaries[i]));
  return {{"schema", "trainctl.bench/2"},
          {"config", setup.config},
          {"repeats", most_repeats(rows)},
          {"baseline", rows.empty() ? "" : rows.front().technique},
          {"rows", list},
          {"machine", setup.machine},
          {"config_hash", or_null(setup.config_hash)},
          {"config_resolved", or_null(setup.config_resolved)}};
}

Trial trial_of(const RunRecord& record, double total_s) {
  Trial trial{.total_s = total_s};
  if (const auto hello = record.hellos.find(0); hello != record.hellos.end())
    trial.startup_s = hello->second.startup_s;
  for (const events::EpochEnded& epoch : record.epochs) {
    trial.epoch_s.push_back(epoch.timing.wall_s);
    if (const auto loss = events::find_metric(epoch.metrics, "train/loss"))
      trial.losses.push_back(*loss);
  }
  if (!record.epochs.empty()) {
    trial.first_batch_s = record.epochs.front().timing.first_batch_s;
    trial.metrics = record.epochs.back().metrics;
    const events::Timing all = sum_timing(record.epochs);
    trial.rss_mb = all.rss_mb;
    trial.gpu_mem_mb = all.gpu_mem_mb;
  }
  trial.samples_per_s = sum_timing(steady_epochs(record)).samples_per_s;
  if (const auto end = record.finished.find(0); end != record.finished.end())
    trial.data_digest = end->second.data_digest;
  if (record.started) {
    trial.global_batch = record.started->global_batch;
    trial.num_threads = record.started->num_threads;
  }
  add_ranks(record, trial);
  if (const auto usage = sum_usage(record.epochs)) trial.taken = taken_cores(*usage);
  return trial;
}

std::optional<bool> same_batches(const BenchRow& base, const BenchRow& row) {
  if (base.trials.empty() || row.trials.empty()) return std::nullopt;
  const std::string& wanted = base.trials.front().data_digest;
  const auto known = [](const Trial& trial) { return !trial.data_digest.empty(); };
  if (wanted.empty() || !std::ranges::all_of(row.trials, known)) return std::nullopt;
  return std::ranges::all_of(row.trials,
                             [&](const Trial& trial) { return trial.data_digest == wanted; });
}

std::optional<double> loss_gap(const BenchRow& base, const BenchRow& row) {
  if (base.trials.empty() || row.trials.empty() || base.trials.front().losses.empty())
    return std::nullopt;
  const std::vector<double>& wanted = base.trials.front().losses;
  double gap = 0;
  for (const Trial& trial : row.trials) {
    if (trial.losses.size() != wanted.size()) return std::nullopt;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double one = relative_gap(wanted[i], trial.losses[i]);
      if (std::isnan(one)) return std::nullopt;
      gap = std::max(gap, one);
    }
  }
  return gap;
}

std::string loss_text(const std::optional<double>& gap) {
  constexpr double kOfRounding = 1e-4;
  if (!gap) return "?";
  if (*gap == 0) return "same";
  if (*gap > kOfRounding) return "differ";
  return fmt::format("within {:.0e}", std::pow(10, std::ceil(std::log10(*gap))));
}

Samples samples_of(std::span<const Trial> trials) {
  Samples samples;
  for (const Trial& trial : trials) {
    for (const auto& [name, value] : numbers_of(trial)) samples[name].push_back(value);
  }
  std::erase_if(samples, [&](const auto& each) { return each.second.size() != trials.size(); });
  return samples;
}

std::string same_text(const std::optional<bool>& same) {
  if (!same) return "?";
  return *same ? "same" : "differ";
}

}  // namespace trainctl::report
