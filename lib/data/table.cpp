#include "data/table.hpp"

#include "base/error.hpp"
#include "base/machine.hpp"
#include "base/strings.hpp"
#include "data/labels.hpp"
#include "data/rows_dataset.hpp"
#include "data/table_columns.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace trainctl::data {
namespace {

using spec::dataset::LabelType;
using spec::dataset::Table;

constexpr std::size_t kBudgetEvery = 65'536;  // rows

/// Class names fixed by the options or learnt; empty where the labels are numbers, or nobody fixed
/// them.
std::vector<std::string> fixed_classes(const Table& options, const TableColumns& columns) {
  if (!options.classes.empty()) return options.classes;
  std::vector<std::string> names;
  std::int64_t number = 0;
  bool numbers = true;
  for (const auto& [name, ignored] : columns.labels()) {
    names.push_back(name);
    numbers = numbers && parse_index(name, number);
  }
  return numbers ? std::vector<std::string>() : names;
}

/// Numbered classes where the training table knows the highest: the others may hold no higher.
void keep_to_learnt(Labels& labels, const TableColumns& columns, const TableRows& rows) {
  std::int64_t highest = -1;
  for (const auto& [name, ignored] : columns.labels()) {
    std::int64_t number = 0;
    if (parse_index(name, number)) highest = std::max(highest, number);
  }
  if (highest < 0 || !labels.class_names.empty()) return;
  ENSURE(data, labels.classes <= highest + 1,
         "{} has label {}; the table of statistics_from has labels up to {}", rows.name(),
         labels.classes - 1, highest);
  labels.classes = highest + 1;
}

/// What is gathered from the rows.
struct Gathered {
  std::vector<float> features;
  std::vector<std::string> labels;  // of classes
  std::vector<float> targets;
  std::vector<std::string> places;  // of the labels: filled where they are texts
};

Gathered gather_rows(const Table& options, const TableColumns& columns, TableRows& rows) {
  Gathered gathered;
  const std::uint64_t budget = available_memory() / 2;
  const auto label_at = static_cast<std::size_t>(
      std::find(rows.columns().begin(), rows.columns().end(), options.label) -
      rows.columns().begin());
  for (std::size_t count = 1; rows.next(); ++count) {
    std::optional<std::string> label = columns.take(rows, gathered.features);
    if (count % kBudgetEvery == 0) {
      ENSURE(resource, gathered.features.size() * sizeof(float) <= budget,
             "{} does not fit into half of the available memory ({}); free some memory or use "
             "fewer columns",
             rows.name(), human_bytes(static_cast<double>(budget)));
    }
    if (!label) continue;
    if (options.label_type == LabelType::category) {
      gathered.labels.push_back(*std::move(label));
      gathered.places.push_back(rows.place(label_at));
      continue;
    }
    const double target = rows.number(label_at).value_or(0);
    gathered.targets.push_back(static_cast<float>(target));
    ENSURE(data, std::isfinite(gathered.targets.back()), "{}: {} does not fit a 32-bit float",
           rows.place(label_at), target);
  }
  return gathered;
}

Labels labels_of(const Table& options, const TableColumns& columns, const Gathered& gathered,
                 const TableRows& rows) {
  if (options.label_type == LabelType::number) return number_labels(gathered.targets, 1);
  Labels labels = class_labels(gathered.labels, fixed_classes(options, columns),
                               [&](std::size_t i) { return gathered.places[i]; });
  keep_to_learnt(labels, columns, rows);
  return labels;
}

std::vector<std::byte> bytes_of(std::vector<float>&& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

struct LoadedTable {
  std::shared_ptr<const Dataset> dataset;
  std::vector<std::string> feature_names;
};

LoadedTable load(const Table& options, const OpenTable& open) {
  const std::unique_ptr<TableRows> rows = open(options.path);
  TableColumns columns(options, *rows);
  if (options.statistics_from) columns.learn(*open(*options.statistics_from));
  Gathered gathered = gather_rows(options, columns, *rows);
  const auto samples =
      static_cast<std::int64_t>(std::max(gathered.labels.size(), gathered.targets.size()));
  ENSURE(data, samples > 0, "{} has no rows{}", rows->name(),
         options.missing == spec::dataset::Missing::drop ? " without a missing value" : "");
  ENSURE(data, !options.rows || samples == *options.rows,
         "{} has {} rows; 'rows' says {}: was it cut off?", rows->name(), samples, *options.rows);
  Labels labels = labels_of(options, columns, gathered, *rows);
  const auto width = static_cast<std::int64_t>(columns.width());
  std::vector<FieldRows> fields;
  fields.push_back(
      owned_rows({"features", Dtype::f32, {width}}, bytes_of(std::move(gathered.features))));
  fields.push_back(owned_rows(labels.field, std::move(labels.rows)));
  return {std::make_shared<const RowsDataset>(std::move(fields), labels.classes,
                                              std::move(labels.class_names)),
          columns.feature_names()};
}

}  // namespace

std::shared_ptr<const Dataset> load_table(const Table& options, const OpenTable& open) {
  return load(options, open).dataset;
}

Facts table_facts(const Table& options, const OpenTable& open) {
  const LoadedTable table = load(options, open);
  return {table.dataset->size(), table.dataset->classes(), table.dataset->layout(),
          table.dataset->class_names(), table.feature_names};
}

std::vector<ColumnStats> table_columns(const Table& options, const OpenTable& open) {
  const std::unique_ptr<TableRows> rows = open(options.path);
  const TableColumns columns(options, *rows);
  std::vector<ColumnStats> stats;
  for (const FeatureColumn& column : columns.features())
    stats.push_back({.name = column.name, .categorical = column.categorical});
  while (rows->next()) {
    for (std::size_t i = 0; i < stats.size(); ++i) {
      const std::size_t at = columns.place(i);
      const auto value = stats[i].categorical ? std::nullopt : rows->number(at);
      if (value) stats[i].learn(*value);
      if (stats[i].categorical ? !rows->text(at) : !value) ++stats[i].missing;
    }
  }
  return stats;
}

}  // namespace trainctl::data
