#include "data/formats/table.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/numbers.hpp"
#include "base/shared_library.hpp"
#include "base/strings.hpp"
#include "data/core/dataset_split.hpp"
#include "data/core/memory_dataset.hpp"
#include "data/formats/file_reader.hpp"
#include "data/formats/labels.hpp"
#include "data/formats/table_columns.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <utility>

namespace trainctl::data {
namespace {

using spec::dataset::LabelType;
using spec::dataset::Table;

constexpr std::int64_t kBudgetEvery = 65'536;  // rows

/// Returns class names from the options or the training table; empty when labels are numbers.
std::vector<std::string> fixed_classes(const Table& options, const TableColumns& columns) {
  if (!options.classes.empty()) return options.classes;
  std::vector<std::string> names;
  bool numbers = true;
  for (const auto& [name, ignored] : columns.labels()) {
    names.push_back(name);
    numbers = numbers && looks_numeric(name);
  }
  return numbers ? std::vector<std::string>() : names;
}

/// Checks that numbered classes do not exceed those of the training table.
void restrict_to_learned_labels(Labels& labels, const TableColumns& columns,
                                const TableRows& rows) {
  std::int64_t highest = -1;
  for (const auto& [name, ignored] : columns.labels()) {
    std::int64_t number = 0;
    if (parse_class(name, number)) highest = std::max(highest, number);
  }
  if (highest < 0 || !labels.class_names.empty()) return;
  ENSURE(data, labels.classes <= highest + 1,
         "{} has label {}, but the highest label in the table of statistics_from is {}",
         rows.name(), labels.classes - 1, highest);
  labels.classes = highest + 1;
}

/// The label of each row. Each distinct text is stored once.
class LabelColumn {
 public:
  void add(const std::string& text, const TableRows& rows, std::size_t column) {
    const auto [found, added] = numbers_.emplace(text, static_cast<std::int32_t>(texts_.size()));
    if (added) {
      texts_.push_back(text);
      places_.push_back(rows.where(column));
      text_bytes_ += kEachText + 2 * text.capacity();
    }
    of_row_.push_back(found->second);
  }

  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
  /// Returns the first position of the text.
  [[nodiscard]] const TablePlace& place(std::size_t text) const { return places_[text]; }
  [[nodiscard]] std::int64_t size() const { return std::ssize(of_row_); }
  [[nodiscard]] std::uint64_t bytes() const {
    return text_bytes_ + of_row_.capacity() * sizeof(std::int32_t);
  }
  /// Returns the labels of all rows, given the labels of the distinct texts.
  [[nodiscard]] std::vector<std::byte> rows(const Labels& labels) const {
    constexpr std::size_t kEach = sizeof(std::int64_t);
    std::vector<std::byte> rows(of_row_.size() * kEach);
    for (std::size_t i = 0; i < of_row_.size(); ++i)
      std::memcpy(rows.data() + i * kEach,
                  labels.rows.data() + static_cast<std::size_t>(of_row_[i]) * kEach, kEach);
    return rows;
  }

 private:
  // This is the size of both strings, a map node and the position.
  static constexpr std::uint64_t kEachText = 2 * sizeof(std::string) + 64 + sizeof(TablePlace);

  std::unordered_map<std::string, std::int32_t> numbers_;
  std::vector<std::string> texts_;
  std::vector<TablePlace> places_;
  std::vector<std::int32_t> of_row_;
  std::uint64_t text_bytes_ = 0;
};

struct Gathered {
  std::vector<float> features;
  LabelColumn labels;  // for classification
  std::vector<float> targets;
  std::int64_t read = 0;  // includes dropped rows

  [[nodiscard]] std::int64_t samples() const {
    return std::max<std::int64_t>(labels.size(), std::ssize(targets));
  }
  /// Includes the labels as the data set will store them.
  [[nodiscard]] std::uint64_t bytes() const {
    return features.capacity() * sizeof(float) + targets.capacity() * 2 * sizeof(float) +
           labels.bytes() + static_cast<std::uint64_t>(labels.size()) * sizeof(std::int64_t);
  }
};

Gathered gather_rows(const Table& options, const TableColumns& columns, TableRows& rows) {
  Gathered gathered;
  const std::uint64_t budget = available_memory() / 2;
  const auto label_at = static_cast<std::size_t>(
      std::find(rows.columns().begin(), rows.columns().end(), options.label) -
      rows.columns().begin());
  while (rows.next()) {
    const std::optional<std::string> label = columns.take(rows, gathered.features);
    if (++gathered.read % kBudgetEvery == 0) {
      ENSURE(resource, gathered.bytes() <= budget,
             "{} needs more than {} (half of the available memory)\nhint: free memory or use fewer "
             "columns",
             rows.name(), human_bytes(static_cast<double>(budget)));
    }
    if (!label) continue;
    if (options.label_type == LabelType::category) {
      gathered.labels.add(*label, rows, label_at);
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
  Labels labels =
      class_labels(gathered.labels.texts(), fixed_classes(options, columns),
                   [&](std::size_t i) { return rows.describe(gathered.labels.place(i)); });
  restrict_to_learned_labels(labels, columns, rows);
  labels.rows = gathered.labels.rows(labels);
  return labels;
}

std::vector<std::uint32_t> read_groups(const TableColumns& columns, TableRows& rows) {
  GroupColumn groups;
  const std::size_t column = columns.group_column(rows);
  while (rows.next()) {
    if (columns.dropped(rows)) continue;
    const std::optional<std::string> text = rows.text(column);
    ENSURE(data, text, "{}: the value of the 'group_by' column is missing", rows.place(column));
    groups.add(*text);
  }
  return groups.take();
}

/// Returns the class of each row that is kept, without reading its features.
std::vector<std::int64_t> read_classes(const Table& options, const TableColumns& columns,
                                       TableRows& rows, std::vector<std::string>& names) {
  Gathered gathered;
  const std::size_t column = columns.label_column();
  while (rows.next()) {
    if (columns.dropped(rows)) continue;
    const std::optional<std::string> label = rows.text(column);
    ENSURE(data, label, "{}: the label is missing", rows.place(column));
    gathered.labels.add(*label, rows, column);
  }
  Labels labels = labels_of(options, columns, gathered, rows);
  std::vector<std::int64_t> classes(static_cast<std::size_t>(gathered.labels.size()));
  std::memcpy(classes.data(), labels.rows.data(), labels.rows.size());
  names = std::move(labels.class_names);
  return classes;
}

std::int64_t count_samples(const TableColumns& columns, TableRows& rows) {
  std::int64_t samples = 0;
  while (rows.next()) samples += columns.dropped(rows) ? 0 : 1;
  return samples;
}

/// Returns for each sample whether dataset.split puts it into train. Statistics are learned from
/// these samples only.
std::vector<bool> training_samples(const Table& options, const TableColumns& columns,
                                   const OpenTable& open) {
  const spec::SplitOptions& split = *options.split;
  std::vector<std::int64_t> classes;
  std::vector<std::uint32_t> groups;
  std::vector<std::string> names;
  ENSURE(config, !split.stratify || options.label_type == LabelType::category,
         "dataset.split.stratify needs labels that are classes, but 'label_type' is number\nhint: "
         "remove 'stratify'");
  if (split.stratify) classes = read_classes(options, columns, *open(options.path), names);
  if (split.group_by) groups = read_groups(columns, *open(options.path));
  const std::int64_t samples = count_samples(columns, *open(options.path));
  std::vector<bool> learned(static_cast<std::size_t>(samples));
  const Parts parts = divide(split, samples, classes, groups, names);
  for (const std::int64_t sample : parts[static_cast<std::size_t>(spec::Part::train)])
    learned[static_cast<std::size_t>(sample)] = true;
  return learned;
}

/// Returns the data set and its feature names.
std::pair<std::shared_ptr<const Dataset>, std::vector<std::string>> load(const Table& options,
                                                                         const OpenTable& open) {
  const std::unique_ptr<TableRows> rows = open(options.path);
  TableColumns columns(options, *rows);
  if (options.statistics_from)
    columns.learn(*open(*options.statistics_from));
  else if (options.split && columns.learns())
    columns.learn(*open(options.path), training_samples(options, columns, open));
  Gathered gathered = gather_rows(options, columns, *rows);
  ENSURE(data, gathered.samples() > 0, "{} has no rows{}", rows->name(),
         options.missing == spec::dataset::Missing::drop ? " without a missing value" : "");
  ENSURE(data, !options.rows || gathered.read == *options.rows,
         "{} {} and has {}, but 'rows' is {}; the file may be cut off", rows->name(), rows->end(),
         counted(gathered.read, "row"), with_thousands(*options.rows));
  Labels labels = labels_of(options, columns, gathered, *rows);
  const auto width = static_cast<std::int64_t>(columns.width());
  std::vector<FieldRows> fields;
  fields.push_back(owned_rows({"features", Dtype::f32, {width}}, std::move(gathered.features)));
  fields.push_back(owned_rows(labels.field, std::move(labels.rows)));
  return {std::make_shared<const RowsDataset>(std::move(fields), labels.classes,
                                              std::move(labels.class_names)),
          columns.feature_names()};
}

struct ParquetModule {
  ParquetOpen open = nullptr;
  const char* cause = nullptr;  // why the library cannot be loaded
};

const ParquetModule& parquet_module() {
  static const ParquetModule loaded = [] {
    ParquetModule found;
    found.open =
        reinterpret_cast<ParquetOpen>(find_in_module(kParquetLibrary, kParquetSymbol, found.cause));
    return found;
  }();
  return loaded;
}

}  // namespace

bool has_parquet() { return parquet_module().open != nullptr; }

std::unique_ptr<TableRows> open_parquet(const std::filesystem::path& path) {
  const FileReader file(path);
  ENSURE(config, has_parquet(),
         "Parquet needs Arrow, but {} cannot be loaded: {}\nhint: save the table as CSV and use "
         "'csv', or run scripts/setup --arrow and build again",
         kParquetLibrary, parquet_module().cause);
  file.need_all();
  return std::unique_ptr<TableRows>(parquet_module().open(file.fd(), path.c_str()));
}

std::shared_ptr<const Dataset> load_table(const Table& options, const OpenTable& open) {
  return load(options, open).first;
}

Facts table_facts(const Table& options, const OpenTable& open) {
  const auto [dataset, feature_names] = load(options, open);
  return {dataset->size(), dataset->classes(), dataset->layout(), dataset->class_names(),
          feature_names};
}

std::vector<std::uint32_t> table_groups(const Table& options, const OpenTable& open) {
  const std::unique_ptr<TableRows> rows = open(options.path);
  return read_groups(TableColumns(options, *rows), *rows);
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
