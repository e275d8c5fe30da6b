#include "report/record/worst_predictions.hpp"

#include "base/numbers.hpp"
#include "report/text/table.hpp"

#include <cmath>
#include <limits>

namespace trainctl::report {
namespace {

constexpr std::size_t kAbsent = std::numeric_limits<std::size_t>::max();

struct PredictionColumns {
  std::size_t index = kAbsent;
  std::size_t name = kAbsent;
  std::size_t label = kAbsent;
  std::size_t predicted = kAbsent;
  std::size_t sureness = kAbsent;
  std::size_t probabilities = kAbsent;  // prob_0
  std::size_t classes = 0;
};

PredictionColumns columns_of(const std::vector<std::string>& header) {
  PredictionColumns columns;
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (header[i] == "index") columns.index = i;
    if (header[i] == "name") columns.name = i;
    if (header[i] == "label") columns.label = i;
    if (header[i] == "class") columns.predicted = i;
    if (header[i] == "class_prob") columns.sureness = i;
    if (header[i] == "prob_0") columns.probabilities = i;
    if (header[i].starts_with("prob_")) ++columns.classes;
  }
  ENSURE(
      config, columns.index != kAbsent && columns.label != kAbsent && columns.predicted != kAbsent,
      "the predictions must have the columns 'index', 'label' and 'class'\nhint: write them with "
      "'trainctl predict RUN --checkpoint best --out predictions.csv' from a split with labels");
  return columns;
}

std::int64_t whole(const std::string& cell) {
  const double value = cell_number(cell);
  return value >= 0 && value < 9e15 ? static_cast<std::int64_t>(value) : -1;
}

/// A prediction with its rank: larger is worse.
struct Ranked {
  double badness = 0;
  Mistake mistake;
};

std::optional<Ranked> ranked(const std::vector<std::string>& cells,
                             const PredictionColumns& columns) {
  Ranked row;
  Mistake& mistake = row.mistake;
  mistake.index = whole(cells[columns.index]);
  mistake.label = whole(cells[columns.label]);
  mistake.predicted = whole(cells[columns.predicted]);
  if (columns.name != kAbsent) mistake.name = cells[columns.name];
  if (mistake.index < 0 || mistake.label < 0 || mistake.predicted < 0) return std::nullopt;
  const auto label = static_cast<std::size_t>(mistake.label);
  if (columns.probabilities != kAbsent && label < columns.classes) {
    mistake.probability = cell_number(cells[columns.probabilities + label]);
    mistake.loss = -std::log(*mistake.probability);
    row.badness = std::isnan(*mistake.loss) ? HUGE_VAL : *mistake.loss;
    return row;
  }
  if (mistake.label == mistake.predicted) return std::nullopt;
  row.badness = columns.sureness == kAbsent ? 0 : cell_number(cells[columns.sureness]);
  return row;
}

}  // namespace

std::vector<Mistake> worst_predictions(std::string_view csv, std::size_t most) {
  const std::vector<std::string> header = csv_cells(next_line(csv));
  const PredictionColumns columns = columns_of(header);
  // The heap contains the worst predictions so far, with the least bad one on top.
  const auto less_bad = [](const Ranked& a, const Ranked& b) { return a.badness > b.badness; };
  std::vector<Ranked> heap;
  while (!csv.empty()) {
    const std::vector<std::string> cells = csv_cells(next_line(csv));
    if (cells.size() != header.size()) continue;
    auto row = ranked(cells, columns);
    if (!row) continue;
    heap.push_back(std::move(*row));
    std::ranges::push_heap(heap, less_bad);
    if (heap.size() <= most) continue;
    std::ranges::pop_heap(heap, less_bad);
    heap.pop_back();
  }
  std::ranges::stable_sort(heap, less_bad);
  std::vector<Mistake> worst;
  for (Ranked& row : heap) worst.push_back(std::move(row.mistake));
  return worst;
}

}  // namespace trainctl::report
