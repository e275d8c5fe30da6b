#include "base/error.hpp"
#include "report/html/run_page.hpp"
#include "report/record/run_files.hpp"
#include "report/sinks/sink.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

namespace trainctl::report {
namespace {

constexpr double kPause = 30;  // seconds between two pages of a run that goes on

/// Draws the page of what it has heard and of the small files of the folder, so that a page needs
/// no other logger and costs the same however long the history is.
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
    if (!has_changed_ || (drawn_ && now - *drawn_ < kPause)) return;
    drawn_ = now;
    draw();
  }

  void close() override {}
  void on_end(const Json& /*result*/) override { draw(); }
  std::optional<std::string> news() override { return std::exchange(news_, std::nullopt); }

 private:
  /// The history of a run that goes on.
  void recall() {
    if (!is_run_folder(run_dir_)) return;
    RunFiles past = read_run(run_dir_);
    epochs_ = std::move(past.epochs);
    steps_ = std::move(past.steps);
    tables_ = std::move(past.tables);
  }

  void take(const events::Event& event) {
    if (const auto* step = std::get_if<events::StepLogged>(&event)) {
      steps_.add({.epoch = step->epoch + 1,
                  .step = step->global_step,
                  .elapsed_s = step->elapsed_s,
                  .lr = step->lr,
                  .loss = step->loss,
                  .grad_norm = step->grad_norm.value_or(kNone),
                  .param_norm = step->param_norm.value_or(kNone)});
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
        return std::tie(table.metric, table.split);  // as the files come
      });
      run.ranks = rank_rows(ranks_);
      write_atomically(run_dir_ / "report.html", run_page(run, extras_));
    } catch (const std::exception& error) {
      if (is_told_) return;
      is_told_ = true;
      news_ = std::string("report.html is not written: ") + error.what();
    }
  }

  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  fs::path run_dir_;
  RunPageExtras extras_;
  std::vector<events::EpochEnded> epochs_;
  StepLines steps_;
  std::vector<CountTable> tables_;
  RunRecord ranks_;
  std::optional<double> drawn_;
  std::optional<std::string> news_;
  bool has_changed_ = false;
  bool is_told_ = false;
};

}  // namespace

std::unique_ptr<Sink> make_html_sink(const fs::path& run_dir,
                                     std::vector<std::string> class_names) {
  return std::make_unique<HtmlSink>(run_dir, std::move(class_names));
}

}  // namespace trainctl::report
