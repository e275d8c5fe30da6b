#include "data/formats/table_columns.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/options/dataset.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace trainctl::data {
namespace {

using spec::dataset::LabelType;
using spec::dataset::Missing;
using spec::dataset::Table;

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

bool learns_from_data(const config::Stage& dataset) {
  using spec::dataset::Csv, spec::dataset::Parquet;
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
