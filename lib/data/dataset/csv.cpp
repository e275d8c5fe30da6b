#include "spec/dataset/csv.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "data/csv_reader.hpp"
#include "data/labels.hpp"
#include "data/mapped_file.hpp"
#include "data/registry.hpp"
#include "data/table.hpp"

#include <algorithm>
#include <utility>

namespace trainctl::data {
namespace {

using spec::dataset::Csv;

char delimiter_of(const Csv& options) {
  const std::string& text = options.delimiter;
  ENSURE(config, text.size() == 1 && text != "\"" && text != "\n" && text != "\r",
         "delimiter is '{}'; expected one byte, such as , or ; or a tab", printable(text));
  return text[0];
}

class CsvRows final : public TableRows {
 public:
  CsvRows(const Csv& options, const std::filesystem::path& path)
      : options_(options),
        file_(path),
        reader_({reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()},
                path.string(), delimiter_of(options)) {
    ENSURE(data, reader_.next(record_), "{} is empty; expected a line of column names",
           file_.name());
    for (const CsvField& field : record_) columns_.emplace_back(field.text);
  }

  [[nodiscard]] const std::vector<std::string>& columns() const override { return columns_; }
  [[nodiscard]] const std::string& name() const override { return file_.name(); }
  [[nodiscard]] std::string place(std::size_t column) const override {
    return reader_.place(record_[column]);
  }

  bool next() override {
    if (!reader_.next(record_)) return false;
    ENSURE(data, record_.size() == columns_.size(),
           "{}: {} fields; the first line names {} columns", reader_.place(record_[0]),
           record_.size(), columns_.size());
    return true;
  }

  [[nodiscard]] std::optional<double> number(std::size_t column) const override {
    const std::string_view text = record_[column].text;
    if (missing(text)) return std::nullopt;
    double value = 0;
    ENSURE(data, parse_number(text, value),
           "{}: '{}' in column '{}' is no number; if it is a name, list the column under "
           "'categorical' or leave it out of "
           "'features'",
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
    return std::find(options_.missing_markers.begin(), options_.missing_markers.end(), text) !=
           options_.missing_markers.end();
  }

  const Csv& options_;
  MappedFile file_;
  CsvReader reader_;
  std::vector<std::string> columns_;
  std::vector<CsvField> record_;
};

OpenTable open_with(const Csv& options) {
  return [&options](const std::filesystem::path& path) {
    return std::make_unique<CsvRows>(options, path);
  };
}

}  // namespace

void register_dataset_csv(Catalogue& catalogue) {
  catalogue.datasets["csv"] = [](const config::Stage& stage) {
    return load_table(stage.as<Csv>(), open_with(stage.as<Csv>()));
  };
  catalogue.facts["csv"] = [](const config::Stage& stage) {
    return table_facts(stage.as<Csv>(), open_with(stage.as<Csv>()));
  };
  catalogue.columns["csv"] = [](const config::Stage& stage) {
    return table_columns(stage.as<Csv>(), open_with(stage.as<Csv>()));
  };
}

}  // namespace trainctl::data
