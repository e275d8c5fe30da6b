#pragma once

#include "events/records.hpp"
#include "report/text/table.hpp"

namespace trainctl::report {

/// The columns and the style of the epoch table.
struct EpochTableOptions {
  std::int64_t max_epochs = 0;       // 0: unknown, only the epoch is shown
  std::vector<std::string> metrics;  // in column order; empty: those of the first epoch
  Style style;
  std::string transfer_name = "h2d";  // header of the Timing::h2d_s column; see transfer_name()
  bool shows_graphs = false;          // whether Timing::graph_s has a column
};

/// The table that `run` prints as epochs end: the header once, then one line per epoch. Budget
/// columns are whole percent of the epoch's wall time and sum to 100; phases without a column count
/// as other. On a narrow terminal, columns are dropped in the order of kZeroPart, kTrainMetric and
/// so on. An epoch that improved the monitored metric has a mark.
class EpochTable {
 public:
  explicit EpochTable(EpochTableOptions options) : options_(std::move(options)) {}

  /// Only has an effect before the first epoch.
  void set_max_epochs(std::int64_t epochs) { options_.max_epochs = epochs; }
  void show_graphs(bool shows) { options_.shows_graphs = shows; }
  void set_transfer_name(std::string name) { options_.transfer_name = std::move(name); }
  /// Returns one or more lines with newlines; the first call includes the header.
  std::string add(const events::EpochEnded& epoch);

 private:
  using Cell = std::function<std::string(const events::EpochEnded&)>;
  using Seconds = double events::Timing::*;
  struct Field {
    Column column;
    int width = 0;
    int leave_out = 0;  // priority for dropping, highest first; 0: never
    Cell cell;
    Seconds seconds = nullptr;  // of a phase with a column
    bool budget = false;
  };

  void choose_fields(const events::EpochEnded& first);
  void add_metric(const std::string& name);
  void add_phase(const std::string& header, Seconds seconds);
  void add_other();
  void rank_parts(const events::EpochEnded& first);
  void fit_width();
  [[nodiscard]] bool validates() const;
  [[nodiscard]] double other_share(const events::EpochEnded& epoch) const;
  [[nodiscard]] int total_width() const;
  [[nodiscard]] std::string header() const;
  [[nodiscard]] std::string budget_bracket() const;
  [[nodiscard]] std::string epoch_text(std::int64_t epoch) const;
  [[nodiscard]] std::string line(const std::vector<std::string>& cells) const;

  EpochTableOptions options_;
  std::vector<Field> fields_;
};

}  // namespace trainctl::report
