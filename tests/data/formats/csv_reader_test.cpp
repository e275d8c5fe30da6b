#include "data/formats/csv_reader.hpp"

#include "data/fakes.hpp"
#include "support/catch.hpp"
#include "support/growth.hpp"

using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

using Table = std::vector<std::vector<std::string>>;

Table read(const std::string& text, char delimiter = ',') {
  CsvReader reader(text, "t.csv", delimiter);
  Table table;
  std::vector<CsvField> record;
  while (reader.next(record)) {
    table.emplace_back();
    for (const CsvField& field : record) table.back().emplace_back(field.text);
  }
  return table;
}

std::string failure(const std::string& text) {
  return failure_of([&] { (void)read(text); });
}

}  // namespace

TEST_CASE("CsvReader: reads fields, quotes and line breaks as in RFC 4180") {
  CHECK(read("").empty());
  CHECK(read("a,b\n1,\n") == Table{{"a", "b"}, {"1", ""}});
  CHECK(read("\xEF\xBB\xBF"
             "a,b\r\n\r\n1,2\r\n\n") == Table{{"a", "b"}, {"1", "2"}});
  CHECK(read("\"a,b\",\"c\"\"d\",\"\",\"\"\"\"\n") == Table{{"a,b", "c\"d", "", "\""}});
  CHECK(read("\"two\r\nlines\",x\n,\n") == Table{{"two\r\nlines", "x"}, {"", ""}});
  CHECK(read("a\tb,c\n", '\t') == Table{{"a", "b,c"}});
  CHECK(read("\"\"\n") == Table{{""}});
}

TEST_CASE("CsvReader: place() counts lines within quotes but not the byte-order mark") {
  const std::string text = "\xEF\xBB\xBFx,\"1\n2\",y\nlast,z\n";
  CsvReader reader(text, "t.csv", ',');
  std::vector<CsvField> record;
  REQUIRE(reader.next(record));
  CHECK(reader.place(record[0]) == "t.csv:1:1");
  CHECK(reader.place(record[2]) == "t.csv:2:4");
  REQUIRE(reader.next(record));
  CHECK(reader.place(record[1]) == "t.csv:3:6");
}

TEST_CASE("CsvReader: text that is not CSV is an error with file, line and column") {
  CHECK_THAT(failure("a,b\n1,x\"y\n"), StartsWith("9: t.csv:2:4: a field contains a quote"));
  CHECK_THAT(failure("\"a\"b,c\n"), StartsWith("9: t.csv:1:4: text after a closing quote"));
  CHECK_THAT(failure("a\rb\r"), StartsWith("9: t.csv:1:2: a carriage return without a line feed"));
  CHECK_THAT(failure(std::string("a,\0b\n", 5)),
             StartsWith("9: t.csv is not a text file: it has a zero byte at byte 2"));
  CHECK_THAT(failure("\xFF\xFE"
                     "a"),
             StartsWith("9: t.csv is UTF-16"));
  CHECK_THAT(failure("a,\"b\nc"), Contains("t.csv ends at byte 6 (line 2), but the quote that "
                                           "opens at line 1, column 3 is not closed"));
}

TEST_CASE("CsvReader: a last line without a line break is read completely") {
  for (const char* text : {"a,b\n1,2", "a,b\r\n1,2", "a,b\n1,\"2\""}) {
    CAPTURE(text);
    CHECK(read(text) == Table{{"a", "b"}, {"1", "2"}});
  }
  CHECK(read("a,b\n1,") == Table{{"a", "b"}, {"1", ""}});
  CHECK(read("a") == Table{{"a"}});
  CsvReader reader("a\nb", "t.csv", ',');
  std::vector<CsvField> record;
  while (reader.next(record)) {
  }
  CHECK(reader.line() == 3);
}

TEST_CASE("CsvReader: text truncated within quotes or a line break is an error with the byte") {
  const std::string text = "name,\"x \"\"y\"\"\",z\r\n1,\"2\n3\",4.25\r\nlast,,\r\n";
  const Table whole = read(text);
  for (std::size_t length = 0; length < text.size(); ++length) {
    const std::string part = text.substr(0, length);
    const std::string found = failure(part);
    if (found.empty()) {
      // All rows are complete except the last, whose last field may be truncated.
      const Table rows = read(part);
      const std::size_t sure =
          rows.empty() || part.ends_with("\r\n") ? rows.size() : rows.size() - 1;
      if (!std::equal(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(sure),
                      whole.begin()))
        FAIL(length);
    } else if (found.find("t.csv ends at byte " + std::to_string(length)) == std::string::npos) {
      FAIL(length << ": " << found);
    }
  }
}

TEST_CASE("CsvReader: the work is linear in lines, fields, quotes and blank lines") {
  const auto reading = [](const char* first, const char* repeated, const char* last) {
    return [=](std::size_t size) {
      std::string text = first;
      for (std::size_t i = 0; i < size; ++i) text += repeated;
      return [text = text + last] {
        CsvReader reader(text, "x.csv", ',');
        std::vector<CsvField> record;
        while (reader.next(record)) continue;
      };
    };
  };
  CHECK(growth_per_doubling(reading("", "a,b\n", ""), 2'000) <= kMostPerDoubling);
  CHECK(growth_per_doubling(reading("", "a,", "\n"), 20'000) <= kMostPerDoubling);
  CHECK(growth_per_doubling(reading("", "\"a\"\"b\",", "\n"), 2'000) <= kMostPerDoubling);
  CHECK(growth_per_doubling(reading("\"", "\"\"", "\"\n"), 4'000) <= kMostPerDoubling);
  CHECK(growth_per_doubling(reading("", "\r\n", "a\n"), 4'000) <= kMostPerDoubling);
}
