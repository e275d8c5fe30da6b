#include "data/csv_reader.hpp"

#include "data/fakes.hpp"
#include "support/catch.hpp"

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

TEST_CASE("CSV is read as RFC 4180 says") {
  CHECK(read("").empty());
  CHECK(read("a,b\n1,\n") == Table{{"a", "b"}, {"1", ""}});
  CHECK(read("\xEF\xBB\xBF"
             "a,b\r\n\r\n1,2\r\n\n") == Table{{"a", "b"}, {"1", "2"}});
  CHECK(read("\"a,b\",\"c\"\"d\",\"\",\"\"\"\"\n") == Table{{"a,b", "c\"d", "", "\""}});
  CHECK(read("\"two\r\nlines\",x\n,\n") == Table{{"two\r\nlines", "x"}, {"", ""}});
  CHECK(read("a\tb,c\n", '\t') == Table{{"a", "b,c"}});
  CHECK(read("\"\"\n") == Table{{""}});
}

TEST_CASE(
    "the place of a CSV field counts lines within quotes, and the byte-order mark not at all") {
  const std::string text = "\xEF\xBB\xBFx,\"1\n2\",y\nlast,z\n";
  CsvReader reader(text, "t.csv", ',');
  std::vector<CsvField> record;
  REQUIRE(reader.next(record));
  CHECK(reader.place(record[0]) == "t.csv:1:1");
  CHECK(reader.place(record[2]) == "t.csv:2:4");
  REQUIRE(reader.next(record));
  CHECK(reader.place(record[1]) == "t.csv:3:6");
}

TEST_CASE("what is no CSV is refused with file, line and column") {
  CHECK_THAT(failure("a,b\n1,x\"y\n"), StartsWith("9: t.csv:2:4: a quote within a field"));
  CHECK_THAT(failure("\"a\"b,c\n"), StartsWith("9: t.csv:1:4: text behind a closing quote"));
  CHECK_THAT(failure("a\rb\r"),
             StartsWith("9: t.csv:1:2: a carriage return that no line feed follows"));
  CHECK_THAT(failure(std::string("a,\0b\n", 5)), StartsWith("9: t.csv has a zero byte at byte 2"));
  CHECK_THAT(failure("\xFF\xFE"
                     "a"),
             StartsWith("9: t.csv is UTF-16"));
  CHECK_THAT(
      failure("a,\"b\nc"),
      Contains("t.csv ends at byte 6 (line 2), within the quotes that open at line 1, column 3"));
}

TEST_CASE("every truncation of a CSV within a line is refused with its byte") {
  const std::string text = "name,\"x \"\"y\"\"\",z\r\n1,\"2\n3\",4.25\r\nlast,,\r\n";
  const Table whole = read(text);
  for (std::size_t length = 0; length < text.size(); ++length) {
    const std::string part = text.substr(0, length);
    const std::string found = failure(part);
    if (found.empty()) {
      // Only at the end of a record: then the rows before are whole.
      const Table rows = read(part);
      if (!std::equal(rows.begin(), rows.end(), whole.begin()) ||
          !(part.empty() || part.ends_with("\r\n")))
        FAIL(length);
    } else if (found.find("t.csv ends at byte " + std::to_string(length)) == std::string::npos) {
      FAIL(length << ": " << found);
    }
  }
}
