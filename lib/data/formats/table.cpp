#include "data/formats/table.hpp"

#include "base/machine/machine.hpp"
#include "base/machine/shared_library.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "data/core/dataset_split.hpp"
#include "data/core/memory_dataset.hpp"
#include "data/formats/file_reader.hpp"
#include "data/formats/labels.hpp"

#include <cmath>
#include <unordered_map>
#include <unordered_set>

namespace trainctl::data {
namespace {

using spec::dataset::LabelType;
using spec::dataset::Missing;
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
             rows.name(), human_bytes(budget));
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

constexpr std::size_t kMostCategories = 10'000;  // of one column; more means free text

using NameSet = std::unordered_set<std::string_view>;  // the strings must outlive the set

NameSet set_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool learns_from_data(const Table& options) {
  return options.standardize || options.missing == Missing::mean || !options.categorical.empty();
}

void check_options(const Table& options) {
  ENSURE(config, !learns_from_data(options) || options.statistics_from || options.split,
         "'{}' needs the values of the training table\nhint: set 'statistics_from' to the path of "
         "the training table in every split",
         options.standardize           ? "standardize"
         : options.categorical.empty() ? "missing: mean"
                                       : "categorical");
  const NameSet features = set_of(options.features);
  ENSURE(config, !features.contains(options.label), "the label '{}' must not be in 'features'",
         options.label);
  for (const std::string& name : options.categorical) {
    ENSURE(config, features.empty() || features.contains(name),
           "the column '{}' is in 'categorical', but not in 'features'", name);
    ENSURE(config, name != options.label,
           "the label '{}' must not be in 'categorical', which is for features", name);
  }
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

bool learns_from_data(const config::Stage& dataset) {
  using spec::dataset::Csv, spec::dataset::Parquet;
  if (const auto* concat = dataset.get_if<spec::dataset::Concat>())
    return std::ranges::any_of(concat->sources,
                               [](const config::Stage& one) { return learns_from_data(one); });
  if (const auto* part = dataset.get_if<spec::dataset::Subset>())
    return learns_from_data(part->source);
  if (dataset.options_type == typeid(Csv)) return learns_from_data(dataset.as<Csv>());
  return dataset.options_type == typeid(Parquet) && learns_from_data(dataset.as<Parquet>());
}

TableColumns::TableColumns(const Table& options, const TableRows& rows)
    : options_(options), names_(rows.columns()) {
  check_options(options);
  std::unordered_map<std::string_view, std::size_t> places;
  places.reserve(names_.size());
  for (const std::string& name : names_) {
    ENSURE(data, places.emplace(name, places.size()).second, "{} has two columns named '{}'",
           rows.name(), printable(name));
  }
  const auto place_of = [&](const std::string& name) {
    const auto found = places.find(name);
    if (found == places.end()) throw_missing_column(name, rows);
    return found->second;
  };
  label_ = place_of(options.label);
  std::vector<std::string> wanted = options.features;
  if (wanted.empty()) {
    for (const std::string& name : names_) {
      const bool groups = options.split && options.split->group_by == name;
      if (name != options.label && !groups) wanted.push_back(name);
    }
  }
  ENSURE(data, !wanted.empty(), "{} has no columns except the label", rows.name());
  const NameSet categorical = set_of(options.categorical);
  for (const std::string& name : options.categorical) (void)place_of(name);
  for (const std::string& name : wanted) {
    at_.push_back(place_of(name));
    FeatureColumn& column = features_.emplace_back();
    column.name = name;
    column.categorical = categorical.contains(name);
  }
}

void TableColumns::throw_missing_column(const std::string& name, const TableRows& rows) const {
  const auto same = std::find_if(names_.begin(), names_.end(), [&](const std::string& other) {
    return std::ranges::equal(other, name, {}, lower, lower);
  });
  const std::optional<std::string> near =
      same != names_.end() ? std::optional(*same) : nearest(name, names_);
  std::string problem =
      fmt::format("{} has no column '{}'{}", rows.name(), printable(name), rows.how_named());
  if (near && hint_of(problem).empty()) problem += "\nhint: use '" + printable(*near) + "'";
  throw Error(ErrorKind::data, problem);
}

void TableColumns::learn(TableRows& rows) {
  ENSURE(data, rows.columns() == names_, "{} must have the same columns in the same order as {}",
         rows.name(), printable(options_.path.string()));
  while (rows.next()) {
    if (dropped(rows)) continue;
    learn_row(rows, true);
    if (options_.label_type == LabelType::number) continue;
    if (auto label = rows.text(label_)) labels_.emplace(*std::move(label), 0);
  }
  number_categories(rows);
}

void TableColumns::learn(TableRows& rows, const std::vector<bool>& learned) {
  for (std::size_t sample = 0; rows.next();) {
    if (!dropped(rows)) learn_row(rows, learned.at(sample++));
  }
  number_categories(rows);
}

void TableColumns::learn_row(const TableRows& rows, bool with_numbers) {
  for (std::size_t i = 0; i < features_.size(); ++i) {
    FeatureColumn& column = features_[i];
    if (!column.categorical) {
      const auto value = with_numbers ? rows.number(at_[i]) : std::nullopt;
      if (value) column.learn(*value);
    } else if (auto text = rows.text(at_[i])) {
      column.categories.emplace(*std::move(text), 0);
      ENSURE(
          data, column.categories.size() <= kMostCategories,
          "{}: column '{}' has more than {} different values, too many for a categorical feature",
          rows.place(at_[i]), printable(column.name), kMostCategories);
    }
  }
}

void TableColumns::number_categories(const TableRows& rows) {
  for (FeatureColumn& column : features_) {
    std::size_t feature = 0;
    for (auto& [name, at] : column.categories) at = feature++;
    ENSURE(data, column.categorical ? !column.categories.empty() : column.count > 0,
           "{}: every value of column '{}' is missing", rows.name(), printable(column.name));
  }
}

bool TableColumns::learns() const { return learns_from_data(options_); }

std::size_t TableColumns::group_column(const TableRows& rows) const {
  const auto found = std::find(names_.begin(), names_.end(), *options_.split->group_by);
  if (found == names_.end()) throw_missing_column(*options_.split->group_by, rows);
  return static_cast<std::size_t>(found - names_.begin());
}

std::size_t TableColumns::width() const {
  std::size_t width = 0;
  for (const FeatureColumn& column : features_) width += column.width();
  return width;
}

std::vector<std::string> TableColumns::feature_names() const {
  std::vector<std::string> names;
  for (const FeatureColumn& column : features_) {
    if (!column.categorical) names.push_back(column.name);
    for (const auto& [category, ignored] : column.categories)
      names.push_back(column.name + "=" + category);
  }
  return names;
}

bool TableColumns::dropped(const TableRows& rows) const {
  if (options_.missing != Missing::drop) return false;
  const auto is_missing = [&](std::size_t at) { return !rows.text(at); };
  return is_missing(label_) || std::any_of(at_.begin(), at_.end(), is_missing);
}

std::optional<std::string> TableColumns::take(const TableRows& rows,
                                              std::vector<float>& features) const {
  if (dropped(rows)) return std::nullopt;
  std::optional<std::string> label = rows.text(label_);
  ENSURE(data, label, "{}: the label is missing", rows.place(label_));
  for (std::size_t i = 0; i < features_.size(); ++i) {
    features_[i].categorical ? take_category(features_[i], rows, at_[i], features)
                             : take_number(features_[i], rows, at_[i], features);
  }
  return label;
}

void TableColumns::take_number(const FeatureColumn& column, const TableRows& rows, std::size_t at,
                               std::vector<float>& out) const {
  std::optional<double> value = rows.number(at);
  ENSURE(data, value || options_.missing != Missing::error,
         "{}: the value of '{}' is missing\nhint: set 'missing' to mean, constant or drop",
         rows.place(at), printable(column.name));
  if (!value) value = options_.missing == Missing::mean ? column.mean : options_.missing_value;
  if (options_.standardize) value = (*value - column.mean) / column.scale();
  out.push_back(static_cast<float>(*value));
  ENSURE(data, std::isfinite(out.back()), "{}: {} does not fit a 32-bit float", rows.place(at),
         *value);
}

/// A missing name leaves all one-hot features at 0.
void TableColumns::take_category(const FeatureColumn& column, const TableRows& rows, std::size_t at,
                                 std::vector<float>& out) const {
  const std::optional<std::string> text = rows.text(at);
  ENSURE(data, text || options_.missing != Missing::error,
         "{}: the value of '{}' is missing\nhint: set 'missing' to constant or drop",
         rows.place(at), printable(column.name));
  const std::size_t begin = out.size();
  out.resize(begin + column.width());
  if (!text) return;
  const auto found = column.categories.find(*text);
  ENSURE(
      data, found != column.categories.end(), "{}: the value '{}' of '{}' does not occur in {}",
      rows.place(at), printable(*text), printable(column.name),
      printable((options_.statistics_from ? *options_.statistics_from : options_.path).string()));
  out[begin + found->second] = 1;
}

}  // namespace trainctl::data
