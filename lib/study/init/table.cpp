#include "data/formats/table.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "data/formats/file_reader.hpp"
#include "data/formats/labels.hpp"
#include "spec/options/dataset.hpp"
#include "study/init/starter.hpp"

#include <cmath>

namespace trainctl::study {
namespace {

constexpr std::int64_t kLeastRows = 10;
constexpr std::int64_t kMostCategories = 100;      // one-hot features of a column
constexpr std::int64_t kMostNumberedClasses = 20;  // more different integers are a regression
constexpr std::int64_t kMostClasses = 1000;

/// What the rows say about a column.
struct ColumnFacts {
  std::string name;
  std::map<std::string, std::int64_t> values;  // with their rows; not all if over kMostClasses
  std::int64_t rows = 0;                       // with a value
  std::int64_t missing = 0;
  std::int64_t padded = 0;  // numbers with blanks around them, which are read as text
  bool is_numeric = true;
  bool counts_up = true;  // each value is the one before plus 1
  bool is_whole = true;   // each value is an integer
  double last = 0;

  void add(const std::optional<std::string>& text) {
    missing += text ? 0 : 1;
    if (!text) return;
    if (std::ssize(values) <= kMostClasses || values.contains(*text)) ++values[*text];
    double number = 0;
    const bool is_number = data::parse_finite(*text, number);
    padded += data::looks_numeric(*text) && !is_number ? 1 : 0;
    is_numeric = is_number && is_numeric;
    counts_up = is_numeric && counts_up && (rows == 0 || number == last + 1);
    is_whole = is_numeric && is_whole && number == std::floor(number);
    last = number;
    ++rows;
  }

  /// Returns why the column is not a feature; empty if it is one.
  [[nodiscard]] std::string why_unused() const {
    if (rows < 5 || rows < missing / 10) return "few values";
    if (values.size() == 1) return "one value in all rows";
    if (counts_up) return "counts the rows";
    const bool is_text = !is_numeric && std::ssize(values) > kMostCategories;
    return is_text ? fmt::format("text with more than {} values", kMostCategories) : "";
  }
};

struct TableFacts {
  bool is_parquet = false;
  spec::dataset::Csv options;  // delimiter, missing_markers and label
  std::string name;            // of the file, for errors
  std::int64_t rows = 0;
  std::vector<ColumnFacts> features;
  std::vector<std::string> unused;  // "id (counts the rows)"
  std::int64_t missing = 0;         // values of the features
  ColumnFacts target;
  std::string why_target;
  bool is_regression = false;
  std::vector<std::string> classes;  // if they are numbers
  ClassSizes sizes;
};

std::unique_ptr<data::TableRows> open_table(const fs::path& path, TableFacts& facts) {
  facts.is_parquet = path.extension() == ".parquet";
  if (facts.is_parquet) return data::open_parquet(path);
  std::string line = start_of_text(path);
  for (std::size_t at = 0; (at = line.find('"')) < line.find('\n');)  // names in quotes
    line.erase(at, line.find('"', at + 1) - at).erase(at, 1);
  line.resize(std::min(line.find('\n'), line.size()));
  facts.options.delimiter = std::ranges::max({',', '\t', ';', '|'}, {}, [&](char separator) {
    return std::ranges::count(line, separator);
  });
  for (const char* marker : {"?", "N/A", "n/a", "NULL"})
    facts.options.missing_markers.emplace_back(marker);
  return data::open_csv(facts.options, path);
}

/// Chooses the target and returns its index. Checks the names of the columns.
std::size_t find_target(const data::TableRows& rows, const std::string& wanted, TableFacts& facts) {
  const std::vector<std::string>& names = rows.columns();
  ENSURE(data, facts.is_parquet || !std::ranges::all_of(names, data::looks_numeric),
         "{}: the first line must name the columns, got the numbers {}", facts.name,
         shortened(names));
  facts.options.label = wanted.empty() ? names.back() : wanted;
  facts.why_target = wanted.empty() ? "the last column" : "chosen by --target";
  for (const char* usual : {"y", "class", "target", "label"}) {  // the last one has priority
    const auto found = std::ranges::find(names, usual, lower_case);
    if (!wanted.empty() || found == names.end()) continue;
    facts.options.label = *found;
    facts.why_target = "chosen by its name";
  }
  (void)data::TableColumns(facts.options, rows);  // for its checks
  return static_cast<std::size_t>(std::ranges::find(names, facts.options.label) - names.begin());
}

void check_column(const ColumnFacts& column, const TableFacts& facts) {
  const std::string& name = column.name;
  check_name(name, facts.name + ": the column name");
  for (const auto& [text, rows] : column.values)
    check_name(text, fmt::format("{}: in column '{}', the value", facts.name, printable(name)));
  const bool is_padded = name.starts_with(' ') || name.ends_with(' ');
  ENSURE(data, facts.is_parquet || (!is_padded && column.padded * 2 <= column.rows),
         "{}: column '{}' has blanks around its name or its numbers\nhint: remove these blanks",
         facts.name, printable(name));
}

/// Decides between classes and a regression.
void examine_target(TableFacts& facts) {
  const ColumnFacts& target = facts.target;
  const std::string where =
      fmt::format("the target column '{}' of {}", printable(target.name), facts.name);
  std::map<double, std::string> numbers;  // with their spelling
  for (const auto& [text, rows] : target.values)
    if (double key = 0; target.is_numeric && data::parse_finite(text, key)) numbers[key] = text;
  const std::int64_t values = target.is_numeric ? std::ssize(numbers) : std::ssize(target.values);
  constexpr const char* kHint = "name another column with --target";
  ENSURE(data, target.missing == 0, "{} has no value in {}\nhint: remove these rows, or {}", where,
         counted(target.missing, "row"), kHint);
  ENSURE(data, values > 1, "{} has the same value in all rows\nhint: {}", where, kHint);
  facts.is_regression = target.is_numeric && (values > kMostNumberedClasses ||
                                              values * 5 > target.rows || !target.is_whole);
  if (facts.is_regression) return;
  ENSURE(data, values == std::ssize(target.values),
         "{} contains a number in two spellings, such as 1 and 1.0\nhint: use one of them", where);
  ENSURE(data, values <= kMostClasses && values * 2 <= target.rows,
         "{} has too many different texts for classes\nhint: {}", where, kHint);
  facts.sizes = {target.rows, 0};
  for (const auto& [text, rows] : target.values)
    facts.sizes = {std::min(facts.sizes.least, rows), std::max(facts.sizes.most, rows)};
  for (const auto& [number, text] : numbers) facts.classes.push_back(text);
}

TableFacts inspect_table(const StarterRequest& request) {
  TableFacts facts;
  const std::unique_ptr<data::TableRows> rows = open_table(request.data, facts);
  facts.name = rows->name();
  const std::size_t target = find_target(*rows, request.target, facts);
  std::vector<ColumnFacts> columns;
  for (const std::string& name : rows->columns()) columns.push_back({.name = name});
  for (; rows->next(); ++facts.rows)
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].add(rows->text(i));
  ENSURE(data, facts.rows >= kLeastRows, "{} has {}, but at least {} are needed", facts.name,
         counted(facts.rows, "row"), kLeastRows);
  for (const ColumnFacts& column : columns) check_column(column, facts);
  facts.target = columns[target];
  examine_target(facts);
  columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(target));
  for (ColumnFacts& column : columns) {
    if (const std::string why = column.why_unused(); !why.empty()) {
      facts.unused.push_back(fmt::format("{} ({})", column.name, why));
      continue;
    }
    facts.missing += column.missing;
    facts.features.push_back(std::move(column));
  }
  ENSURE(data, !facts.features.empty(), "no column of {} can be a feature: {}", facts.name,
         shortened(facts.unused));
  return facts;
}

std::string yaml_list(const std::vector<std::string>& texts) {
  std::vector<std::string> values;
  for (const std::string& text : texts) values.push_back(yaml_value(text));
  return "[" + join(values, ", ") + "]";
}

std::vector<std::string> names_of(const std::vector<ColumnFacts>& columns, bool with_numbers) {
  std::vector<std::string> names;
  for (const ColumnFacts& column : columns)
    if (with_numbers || !column.is_numeric) names.push_back(column.name);
  return names;
}

std::string target_text(const TableFacts& facts) {
  if (facts.is_regression) return facts.why_target + "; regression (the numbers are not classes)";
  return fmt::format("{}; {} classes of {} to {} rows", facts.why_target,
                     facts.target.values.size(), with_thousands(facts.sizes.least),
                     with_thousands(facts.sizes.most));
}

/// Returns the options of the data set that depend on the values.
std::string options_text(const TableFacts& facts) {
  const spec::dataset::Csv& csv = facts.options;
  std::string text;
  if (csv.delimiter != ",") text += "    delimiter: " + yaml_value(csv.delimiter) + "\n";
  text +=
      fmt::format("    # Target: {}.\n    label: {}\n", target_text(facts), yaml_value(csv.label));
  if (facts.is_regression) text += "    label_type: number\n";
  if (!facts.classes.empty()) text += "    classes: " + yaml_list(facts.classes) + "\n";
  if (!facts.unused.empty()) text += "    # Not used: " + shortened(facts.unused) + ".\n";
  text += "    features: " + yaml_list(names_of(facts.features, true)) + "\n";
  if (const auto names = names_of(facts.features, false); !names.empty())
    text +=
        "    # Each value of these columns becomes a feature that is 0 or 1.\n    categorical: " +
        yaml_list(names) + "\n";
  if (facts.missing > 0)
    text +=
        "    # " + counted(facts.missing, "value is", "values are") +
        " missing. A missing number is replaced by the mean of its column.\n    missing: mean\n";
  if (facts.missing > 0 && !facts.is_parquet)
    text += "    missing_markers: " + yaml_list(csv.missing_markers) + "\n";
  return text;
}

constexpr const char* kTableYaml = R"(
dataset:
  train:
    # {}.
    type: {}
    path: {}
{}    # Each numeric column is scaled to mean 0 and standard deviation 1.
    standardize: true
  # A fifth of the rows is for validation.
  split: {{ val: 0.2{} }}

{}model: {{ type: mlp, hidden: [64, 32] }}
loss: {}
optimizer: {{ type: adamw, lr: 0.003, weight_decay: 0.01 }}
metrics: [{}]
# Training stops when the validation loss has not improved for 10 epochs.
early_stopping: {{ type: patience, patience: 10, restore_best: true }}
trainer: {{ max_epochs: 50 }}
)";

}  // namespace

Starter table_starter(const StarterRequest& request) {
  const TableFacts facts = inspect_table(request);
  const std::size_t categories = names_of(facts.features, false).size();
  const char* metrics = facts.is_regression               ? "mae, rmse, r2"
                        : facts.target.values.size() == 2 ? "accuracy, auroc"
                                                          : "accuracy";
  Starter starter{{{"rows", with_thousands(facts.rows)},
                   {"target", printable(facts.target.name) + ": " + target_text(facts)},
                   {"features", fmt::format("{} numeric, {} categorical",
                                            facts.features.size() - categories, categories)},
                   {"missing", counted(facts.missing, "value")}},
                  starter_head(request)};
  if (!facts.unused.empty()) starter.facts.emplace_back("not used", shortened(facts.unused));
  starter.yaml +=
      fmt::format(kTableYaml, counted(facts.rows, "row"), facts.is_parquet ? "parquet" : "csv",
                  path_value(request.data, request.file), options_text(facts),
                  facts.sizes.least > 1 ? ", stratify: true" : "",
                  starter_loader(facts.rows * 4 / 5, facts.rows < 100'000 ? 64 : 1024, facts.sizes),
                  facts.is_regression ? "mse" : "cross_entropy", metrics);
  return starter;
}

}  // namespace trainctl::study
