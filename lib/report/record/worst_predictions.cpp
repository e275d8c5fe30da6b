#include "report/record/worst_predictions.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "report/text/table.hpp"

#include <cmath>
#include <map>

namespace trainctl::report {
namespace {

/// The position of each column by its name.
using Columns = std::map<std::string, std::size_t, std::less<>>;

Columns columns_of(const std::vector<std::string>& header) {
  Columns columns;
  for (std::size_t i = 0; i < header.size(); ++i) columns[header[i]] = i;
  ENSURE(
      config, columns.contains("index") && columns.contains("label") && columns.contains("class"),
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

std::optional<Ranked> ranked(const std::vector<std::string>& cells, const Columns& columns) {
  const auto cell = [&](std::string_view name) {
    const auto column = columns.find(name);
    return column == columns.end() ? nullptr : &cells[column->second];
  };
  Ranked row;
  Mistake& mistake = row.mistake;
  mistake.index = whole(*cell("index"));
  mistake.label = whole(*cell("label"));
  mistake.predicted = whole(*cell("class"));
  if (const auto* name = cell("name")) mistake.name = *name;
  if (mistake.index < 0 || mistake.label < 0 || mistake.predicted < 0) return std::nullopt;
  if (const auto* probability = cell(fmt::format("prob_{}", mistake.label))) {
    mistake.probability = cell_number(*probability);
    mistake.loss = -std::log(*mistake.probability);
    row.badness = std::isnan(*mistake.loss) ? HUGE_VAL : *mistake.loss;
    return row;
  }
  if (mistake.label == mistake.predicted) return std::nullopt;
  const auto* sureness = cell("class_prob");
  row.badness = sureness == nullptr ? 0 : cell_number(*sureness);
  return row;
}

}  // namespace

std::vector<Mistake> worst_predictions(std::string_view csv, std::size_t most) {
  const std::vector<std::string> header = csv_cells(next_line(csv));
  const Columns columns = columns_of(header);
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
