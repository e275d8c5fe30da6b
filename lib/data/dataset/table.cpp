#include "data/formats/table.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "data/core/registry.hpp"
#include "data/formats/csv_reader.hpp"
#include "data/formats/file_reader.hpp"
#include "data/formats/labels.hpp"
#include "spec/options/dataset.hpp"

namespace trainctl::data {
namespace {

using spec::dataset::Csv;
using spec::dataset::Parquet;

char delimiter_of(const Csv& options) {
  const std::string& text = options.delimiter;
  ENSURE(config, text.size() == 1 && text != "\"" && text != "\n" && text != "\r",
         "delimiter must be one byte, such as a comma or a tab, got '{}'", printable(text));
  return text[0];
}

/// Reads the file instead of mapping it, so that a file that shrinks raises an ordinary error.
std::string text_of(const FileReader& file, const std::string& name) {
  const std::uint64_t most = available_memory() / 2;
  ENSURE(resource, file.size() <= most,
         "{} has {}, more than the limit of {} (half of the available memory)\nhint: free some "
         "memory, or split the table",
         name, human_bytes(file.size()), human_bytes(most));
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

class CsvRows final : public TableRows {
 public:
  CsvRows(const Csv& options, const std::filesystem::path& path)
      : options_(options),
        name_(shown(path)),
        text_(text_of(FileReader(path), name_)),
        reader_(text_, path.string(), delimiter_of(options)) {
    ENSURE(data, reader_.next(record_), "{} is empty: it must begin with a line of column names",
           name_);
    for (const CsvField& field : record_) columns_.emplace_back(field.text);
  }

  [[nodiscard]] const std::vector<std::string>& columns() const override { return columns_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] TablePlace where(std::size_t column) const override {
    return {record_[column].line, record_[column].column};
  }
  [[nodiscard]] std::string describe(const TablePlace& place) const override {
    return reader_.place({{}, place.row, place.column});
  }
  [[nodiscard]] std::string end() const override {
    return fmt::format("ends at byte {} (line {})", text_.size(), reader_.line() - 1);
  }
  [[nodiscard]] std::string how_named() const override {
    const std::string split =
        fmt::format("; its first line was split at '{}' into {} name{}",
                    printable(options_.delimiter), columns_.size(), plural(columns_.size()));
    const std::size_t other = columns_[0].find_first_of(",;\t|");
    if (columns_.size() > 1 || other == std::string::npos) return split;
    const std::string found = printable(columns_[0].substr(other, 1));
    return fmt::format("{}, but contains '{}'\nhint: set 'delimiter: \"{}\"'", split, found, found);
  }

  bool next() override {
    if (!reader_.next(record_)) return false;
    ENSURE(data, record_.size() == columns_.size(),
           "{}: the line has {} field{}, but the first line names {} column{}",
           reader_.place(record_[0]), record_.size(), plural(record_.size()), columns_.size(),
           plural(columns_.size()));
    return true;
  }

  [[nodiscard]] std::optional<double> number(std::size_t column) const override {
    const std::string_view text = record_[column].text;
    if (missing(text)) return std::nullopt;
    double value = 0;
    ENSURE(data, parse_finite(text, value),
           "{}: '{}' in column '{}' is not a number\nhint: if it is a name, list the column under "
           "'categorical' or omit it from 'features'",
           place(column), printable(text), printable(columns_[column]));
    return value;
  }

  [[nodiscard]] std::optional<std::string> text(std::size_t column) const override {
    const std::string_view text = record_[column].text;
    if (missing(text)) return std::nullopt;
    return std::string(text);
  }

 private:
  [[nodiscard]] bool missing(std::string_view text) const {
    return std::ranges::count(options_.missing_markers, text) > 0;
  }

  const Csv& options_;
  std::string name_;
  std::string text_;
  CsvReader reader_;
  std::vector<std::string> columns_;
  std::vector<CsvField> record_;
};

OpenTable opener_of(const Csv& options) {
  return [&options](const std::filesystem::path& path) { return open_csv(options, path); };
}

OpenTable opener_of(const Parquet& /*options*/) { return open_parquet; }

template <class Options>
void register_table(Catalog& catalog, const char* type) {
  catalog.datasets[type] = [](const config::Stage& stage) {
    return load_table(stage.as<Options>(), opener_of(stage.as<Options>()));
  };
  catalog.facts[type] = [](const config::Stage& stage) {
    return table_facts(stage.as<Options>(), opener_of(stage.as<Options>()));
  };
  catalog.groups[type] = [](const config::Stage& stage) {
    return table_groups(stage.as<Options>(), opener_of(stage.as<Options>()));
  };
  catalog.columns[type] = [](const config::Stage& stage) {
    return table_columns(stage.as<Options>(), opener_of(stage.as<Options>()));
  };
}

}  // namespace

std::unique_ptr<TableRows> open_csv(const Csv& options, const std::filesystem::path& path) {
  return std::make_unique<CsvRows>(options, path);
}

void register_dataset_csv(Catalog& catalog) { register_table<Csv>(catalog, "csv"); }

void register_dataset_parquet(Catalog& catalog) { register_table<Parquet>(catalog, "parquet"); }

}  // namespace trainctl::data
