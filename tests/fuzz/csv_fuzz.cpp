#include "data/formats/csv_reader.hpp"
#include "fuzz/folder.hpp"

#include <string_view>

// libFuzzer: any bytes are accepted or refused as CSV, and accepted cells read the same after they
// are written in quotes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trainctl;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::expect_data_error([&] {
    std::vector<std::vector<std::string>> rows;
    std::string quoted;
    std::vector<data::CsvField> record;
    for (data::CsvReader reader(text, "fuzz.csv", ','); reader.next(record);) {
      rows.emplace_back();
      for (const data::CsvField& field : record) {
        rows.back().emplace_back(field.text);
        quoted += &field == record.data() ? "\"" : ",\"";
        for (const char c : field.text) quoted += c == '"' ? "\"\"" : std::string(1, c);
        quoted += '"';
      }
      quoted += '\n';
    }
    data::CsvReader again(quoted, "again.csv", ',');
    for (const auto& row : rows) {
      if (!again.next(record) || record.size() != row.size()) std::abort();
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (record[i].text != row[i]) std::abort();
      }
    }
    if (again.next(record)) std::abort();
  });
  return 0;
}
