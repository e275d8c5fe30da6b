#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"
#include "report/diagnosis/ranks.hpp"
#include "report/html/run_page.hpp"
#include "report/record/run_files.hpp"
#include "report/record/run_record.hpp"
#include "report/sinks/sink.hpp"
#include "report/text/table.hpp"

#include <fmt/ranges.h>

#include <tuple>

namespace trainctl::report {
namespace {

constexpr std::size_t kMostWaiting = 1 << 14;
constexpr double kShortestPause = 5;
constexpr double kLongestPause = 600;

/// Writes lines of rank 0's events, and keeps lines that a full disk rejects. Syncs at each epoch,
/// as checkpoints do, so that a run resumed after a power failure has its history.
class FileSink : public Sink {
 public:
  void on_event(int rank, const events::Event& event) final {
    if (rank == 0) take(event);
    if (const auto* epoch = std::get_if<events::RankEpoch>(&event)) take_of_rank(*epoch);
  }
  void on_tick(double now) final { backlog_.on_tick(now); }
  void close() final { backlog_.close(); }
  std::optional<std::string> take_warning() final { return backlog_.take_warning(); }

 protected:
  virtual void take(const events::Event& event) = 0;
  virtual void take_of_rank(const events::RankEpoch& /*epoch*/) {}
  void later(Backlog::Write write) { backlog_.add(std::move(write)); }

 private:
  Backlog backlog_;
};

class CsvSink final : public FileSink {
 public:
  CsvSink(const fs::path& run_dir, std::vector<std::string> metrics)
      : run_dir_(run_dir),
        metrics_(std::move(metrics)),
        epochs_(run_dir / "epochs.csv"),
        validations_(run_dir / "validations.csv"),
        tests_(run_dir / "test.csv"),
        timing_(run_dir / "timing.csv"),
        ranks_(run_dir / "ranks.csv") {}

 protected:
  void take(const events::Event& event) override {
    if (const auto* row = std::get_if<events::TableRow>(&event))
      later([this, row = *row] { add_row(row); });
    if (const auto* epoch = std::get_if<events::EpochEnded>(&event)) add_epoch(*epoch);
    if (const auto* validated = std::get_if<events::Validated>(&event)) add_validation(*validated);
  }
  void take_of_rank(const events::RankEpoch& epoch) override {
    later([this, row = rank_fields(epoch)] { ranks_.append(row); });
  }

 private:
  void add_epoch(const events::EpochEnded& epoch) {
    std::vector<CsvField> timing;
    for (const auto& [name, value] : timing_columns(epoch.timing))
      timing.push_back({name, value ? exact_text(*value) : std::string()});
    const std::string number = std::to_string(epoch.epoch + 1);
    std::vector<CsvField> row{{"epoch", number},
                              {"step", std::to_string(epoch.global_step)},
                              {"lr", exact_text(epoch.lr)}};
    for (const std::string& name : metrics_) row.push_back({name, cell(epoch, name)});
    for (const auto& metric : epoch.metrics) {
      if (std::ranges::find(metrics_, metric.first) == metrics_.end())
        row.push_back({metric.first, exact_text(metric.second)});
    }
    row.insert(row.end(), timing.begin(), timing.end());
    std::vector<CsvField> timing_row{{"epoch", number}};
    timing_row.insert(timing_row.end(), timing.begin(), timing.end());
    later([this, row = std::move(row)] { epochs_.append(row); });
    later([this, row = std::move(timing_row)] { timing_.append(row); });
    later([this] { sync(); });
  }

  void add_validation(const events::Validated& validated) {
    std::vector<CsvField> row{{"epoch", std::to_string(validated.epoch + 1)},
                              {"step", std::to_string(validated.global_step)}};
    for (const auto& [name, value] : validated.metrics) row.push_back({name, exact_text(value)});
    CsvFile& file = validated.split == "test" ? tests_ : validations_;
    later([&file, row = std::move(row)] {
      file.append(row);
      file.sync();
    });
  }

  void sync() {
    epochs_.sync();
    timing_.sync();
    ranks_.sync();
    for (auto& [name, file] : tables_) file.sync();
  }

  /// Appends a row of "val/confusion_matrix" to confusion_matrix.csv: one line for each epoch,
  /// split and row.
  void add_row(const events::TableRow& row) {
    const std::size_t slash = row.metric.find('/');
    table(row.metric.substr(slash + 1), row.counts.size())
        .append_line(fmt::format("{},{},{},{}", row.epoch + 1, row.metric.substr(0, slash), row.row,
                                 fmt::join(row.counts, ",")));
  }

  AppendFile& table(const std::string& name, std::size_t classes) {
    const auto found = tables_.find(name);
    if (found != tables_.end()) return found->second;
    AppendFile file(run_dir_ / (name + ".csv"));
    if (fs::file_size(file.path()) == 0) {
      std::string header = "epoch,split,class";
      for (std::size_t i = 0; i < classes; ++i) header += fmt::format(",{}", i);
      file.append_line(header);
    }
    return tables_.emplace(name, std::move(file)).first->second;
  }

  static std::string cell(const events::EpochEnded& epoch, const std::string& name) {
    const auto value = events::find_metric(epoch.metrics, name);
    return value ? exact_text(*value) : std::string();
  }

  fs::path run_dir_;
  std::vector<std::string> metrics_;
  std::map<std::string, AppendFile> tables_;
  CsvFile epochs_;
  CsvFile validations_;  // within epochs: a file is created with its first row
  CsvFile tests_;
  CsvFile timing_;
  CsvFile ranks_;  // only for several ranks: the file is created with its first row
};

Json norms_line(const events::LayerNorms& norms) {
  Json line{{"type", "norms"}, {"epoch", norms.epoch + 1}, {"step", norms.global_step}};
  for (const auto& [layer, norm] : norms.norms) line["grad_norm/" + layer] = json_number(norm);
  return line;
}

/// Returns elapsed_s of the last epoch in metrics.jsonl; 0 without an epoch.
double elapsed_in(const fs::path& jsonl) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;
  if (!is_file(jsonl)) return 0;
  const std::string text = read_file(jsonl, kMostBytes, ReadFailure::resource);
  const std::size_t found = text.rfind(R"({"type":"epoch")");
  if (found == std::string::npos) return 0;
  const std::size_t end = text.find('\n', found);
  const Json line = parse_json(text.substr(found, end - found));
  return line.is_object() && line.contains("elapsed_s") && line["elapsed_s"].is_number()
             ? line["elapsed_s"].get<double>()
             : 0;
}

class JsonlSink final : public FileSink {
 public:
  explicit JsonlSink(const fs::path& run_dir) : file_(run_dir / "metrics.jsonl") {
    elapsed_s_ = elapsed_in(file_.path());
  }

 protected:
  void take(const events::Event& event) override {
    if (const auto* step = std::get_if<events::StepLogged>(&event)) {
      append(to_line(step_line(*step)));
    } else if (const auto* norms = std::get_if<events::LayerNorms>(&event)) {
      append(to_line(norms_line(*norms)));
    } else if (const auto* validated = std::get_if<events::Validated>(&event)) {
      append(to_line(validation_line(*validated)));
      later([this] { file_.sync(); });
    } else if (const auto* epoch = std::get_if<events::EpochEnded>(&event)) {
      elapsed_s_ += epoch->timing.wall_s;
      Json line{{"type", "epoch"},
                {"epoch", epoch->epoch + 1},
                {"step", epoch->global_step},
                {"elapsed_s", json_number(elapsed_s_)},
                {"lr", json_number(epoch->lr)}};
      for (const auto& [name, value] : epoch->metrics) line[name] = json_number(value);
      append(to_line(line));
      later([this] { file_.sync(); });
    }
  }

 private:
  void append(std::string line) {
    later([this, line = std::move(line)] { file_.append_line(line); });
  }

  AppendFile file_;
  double elapsed_s_ = 0;  // sum of the epochs' times over all starts, which events do not have
};

constexpr double kPagePause = 30;  // seconds between two pages of a running run

/// Renders the page from its events and from the small files of the folder, so that it needs no
/// other logger and its cost does not grow with the history.
class HtmlSink final : public Sink {
 public:
  HtmlSink(fs::path run_dir, std::vector<std::string> class_names) : run_dir_(std::move(run_dir)) {
    extras_.class_names = std::move(class_names);
    recall();
  }

  void on_event(int rank, const events::Event& event) override {
    if (rank == 0) take(event);
    if (std::holds_alternative<events::RankEpoch>(event) ||
        std::holds_alternative<events::Hello>(event))
      ranks_.add(rank, event);
  }

  void on_tick(double now) override {
    if (!has_changed_ || (drawn_ && now - *drawn_ < kPagePause)) return;
    drawn_ = now;
    draw();
  }

  void close() override {}
  void on_end(const Json& /*result*/) override { draw(); }
  std::optional<std::string> take_warning() override { return std::exchange(news_, std::nullopt); }

 private:
  /// Loads the history of a resumed run.
  void recall() {
    if (!is_run_folder(run_dir_)) return;
    RunFiles past = read_run(run_dir_);
    epochs_ = std::move(past.epochs);
    steps_ = std::move(past.steps);
    tables_ = std::move(past.tables);
  }

  void take(const events::Event& event) {
    if (const auto* step = std::get_if<events::StepLogged>(&event)) {
      steps_.add(*step);
    } else if (const auto* epoch = std::get_if<events::EpochEnded>(&event)) {
      while (!epochs_.empty() && epochs_.back().epoch >= epoch->epoch) epochs_.pop_back();
      epochs_.push_back(*epoch);
      has_changed_ = true;
    } else if (const auto* row = std::get_if<events::TableRow>(&event)) {
      take_row(*row);
    }
  }

  void take_row(const events::TableRow& row) {
    const std::size_t slash = row.metric.find('/');
    const std::string split = row.metric.substr(0, slash);
    const std::string metric =
        slash == std::string::npos ? row.metric : row.metric.substr(slash + 1);
    auto table = tables_.begin();
    while (table != tables_.end() && (table->split != split || table->metric != metric)) ++table;
    if (table == tables_.end()) table = tables_.insert(table, {metric, split, 0, {}});
    if (table->epoch != row.epoch + 1) *table = {metric, split, row.epoch + 1, {}};
    const auto at = static_cast<std::size_t>(row.row);
    if (at >= table->counts.size()) table->counts.resize(at + 1);
    table->counts[at] = row.counts;
  }

  void draw() {
    has_changed_ = false;
    try {
      RunFiles run = read_run(run_dir_, Histories::leave_out);
      run.epochs = epochs_;
      run.steps = steps_;
      run.tables = tables_;
      std::ranges::sort(run.tables, {}, [](const CountTable& table) {
        return std::tie(table.metric, table.split);  // same order as that of the files
      });
      run.ranks = rank_rows(ranks_);
      write_atomically(run_dir_ / "report.html", run_page(run, extras_));
    } catch (const std::exception& error) {
      if (is_reported_) return;
      is_reported_ = true;
      news_ = "cannot write report.html: " + one_line(without_hint(error.what()));
    }
  }

  fs::path run_dir_;
  RunPageExtras extras_;
  std::vector<events::EpochEnded> epochs_;
  StepLines steps_;
  std::vector<CountTable> tables_;
  RunRecord ranks_;
  std::optional<double> drawn_;
  std::optional<std::string> news_;
  bool has_changed_ = false;
  bool is_reported_ = false;
};

}  // namespace

Json step_line(const events::StepLogged& step) {
  Json line{{"type", "step"},
            {"epoch", step.epoch + 1},
            {"step", step.global_step},
            {"elapsed_s", json_number(step.elapsed_s)},
            {"lr", json_number(step.lr)},
            {"train/loss", json_number(step.loss)}};
  if (step.grad_norm) line["grad_norm"] = json_number(*step.grad_norm);
  if (step.param_norm) line["param_norm"] = json_number(*step.param_norm);
  return line;
}

Json validation_line(const events::Validated& validated) {
  Json line{{"type", validated.split == "test" ? "test" : "validation"},
            {"epoch", validated.epoch + 1},
            {"step", validated.global_step}};
  for (const auto& [name, value] : validated.metrics) line[name] = json_number(value);
  return line;
}

void Backlog::add(Write write) {
  if (waiting_.size() == kMostWaiting) {
    waiting_.pop_front();
    ++lost_;
  }
  waiting_.push_back(std::move(write));
  drain();
}

void Backlog::drain() {
  try {
    while (!waiting_.empty()) {
      waiting_.front()();
      waiting_.pop_front();
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::resource) throw;
    failure_ = without_hint(error.what());
  }
}

void Backlog::on_tick(double now) {
  now_ = now;
  drain();
}

void Backlog::close() {
  drain();
  ENSURE(resource, waiting_.empty(), "the last logged values are lost: {}", failure_);
}

std::optional<std::string> Backlog::take_warning() {
  if (waiting_.empty()) {
    if (!std::exchange(is_reported_, false)) return std::nullopt;
    pause_ = 0;
    const std::size_t lost = std::exchange(lost_, 0);
    return lost == 0
               ? "the buffered values are written"
               : fmt::format("the buffered values are written, but the oldest {} are lost", lost);
  }
  if (now_ < next_report_) return std::nullopt;
  is_reported_ = true;
  pause_ = std::clamp(2 * pause_, kShortestPause, kLongestPause);
  next_report_ = now_ + pause_;
  return failure_ + "; the run continues, and logged values are buffered";
}

std::unique_ptr<Sink> make_csv_sink(const fs::path& run_dir, std::vector<std::string> metrics) {
  return std::make_unique<CsvSink>(run_dir, std::move(metrics));
}

std::unique_ptr<Sink> make_jsonl_sink(const fs::path& run_dir) {
  return std::make_unique<JsonlSink>(run_dir);
}

std::unique_ptr<Sink> make_html_sink(const fs::path& run_dir,
                                     std::vector<std::string> class_names) {
  return std::make_unique<HtmlSink>(run_dir, std::move(class_names));
}

}  // namespace trainctl::report
