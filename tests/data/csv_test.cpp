#include "data/sources.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"
#include "support/growth.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
using spec::dataset::LabelType;
using spec::dataset::Missing;

namespace {

class Tables {
 public:
  spec::dataset::Csv with(const std::string& text, const char* name = "train.csv") {
    put_text(folder_ / name, text);
    spec::dataset::Csv options;
    options.path = folder_ / name;
    options.label = "y";
    return options;
  }
  static std::string failure(const spec::dataset::Csv& options) {
    return failure_of([&] { (void)build("csv", options); });
  }

 private:
  TempFolder folder_;
};

std::vector<std::vector<float>> features(const Dataset& dataset) {
  std::vector<std::vector<float>> rows;
  for (std::int64_t i = 0; i < dataset.size(); ++i) rows.push_back(values<float>(dataset, i, 0));
  return rows;
}

using Matrix = std::vector<std::vector<float>>;

/// Returns a header "c0,c1,...,y" and a row of numbers.
std::string wide_table(std::size_t columns) {
  std::string names;
  std::string numbers;
  for (std::size_t i = 0; i < columns; ++i) {
    names += fmt::format("c{},", i);
    numbers += fmt::format("{},", i % 10);
  }
  return names + "y\n" + numbers + "1\n";
}

}  // namespace

TEST_CASE("CSV: columns of numbers are features, and the label is a class or a target") {
  Tables tables;
  auto options = tables.with("a,y,b\n1,0,2.5\n-3e1,2,+4\n");
  const auto dataset = build("csv", options);
  CHECK(dataset->layout() == Layout{{"features", Dtype::f32, {2}}, {"label", Dtype::i64, {}}});
  CHECK(dataset->classes() == 3);
  CHECK(features(*dataset) == Matrix{{1, 2.5}, {-30, 4}});
  CHECK(values<std::int64_t>(*dataset, 1, 1) == std::vector<std::int64_t>{2});
  CHECK(facts("csv", options).samples == 2);
  options.label_type = LabelType::number;
  options.features = {"b"};
  const auto target = build("csv", options);
  CHECK(target->layout()[1] == Field{"label", Dtype::f32, {}});
  CHECK(target->classes() == 0);
  CHECK(features(*target) == Matrix{{2.5}, {4}});
  CHECK(values<float>(*target, 1, 1) == std::vector<float>{2});
}

TEST_CASE("CSV: classes may be names, in alphabetical order or in that of 'classes'") {
  Tables tables;
  auto options = tables.with("a,y\r\n1,\"no, never\"\r\n2,maybe\r\n");
  CHECK(build("csv", options)->class_names() == std::vector<std::string>{"maybe", "no, never"});
  options.classes = {"no, never", "yes", "maybe"};
  const auto dataset = build("csv", options);
  CHECK(dataset->classes() == 3);
  CHECK(values<std::int64_t>(*dataset, 1, 1) == std::vector<std::int64_t>{2});
  options.classes = {"yes"};
  CHECK_THAT(Tables::failure(options),
             Contains("train.csv:2:3: the label 'no, never' is not one of the 1 classes"));
}

TEST_CASE("CSV: 'standardize' uses the statistics of the training table for every split") {
  Tables tables;
  auto train = tables.with("a,b,y\n1,7,0\n3,7,1\n5,7,0\n");
  train.standardize = true;
  CHECK_THAT(
      Tables::failure(train),
      StartsWith(
          "2: 'standardize' needs the values of the training table\nhint: set 'statistics_from'"));
  train.statistics_from = train.path;
  auto val = tables.with("a,b,y\n3,8,1\n", "val.csv");
  val.standardize = true;
  val.statistics_from = train.path;
  const auto rows = features(*build("csv", train));
  const auto scale = static_cast<float>(std::sqrt(8.0 / 3));
  CHECK(rows[0][0] == Approx(-2 / scale));
  CHECK(rows[1][0] == 0);
  CHECK(rows[2] ==
        std::vector<float>{-rows[0][0], 0});  // a constant column is centered but not scaled
  CHECK(features(*build("csv", val)) == Matrix{{0, 1}});
  CHECK(build("csv", val)->classes() == 2);
  val = tables.with("a,b,y\n3,8,2\n", "val.csv");
  val.statistics_from = train.path;
  CHECK_THAT(
      Tables::failure(val),
      Contains("val.csv has label 2, but the highest label in the table of statistics_from is 1"));
}

TEST_CASE("CSV: each category of the training table is one feature") {
  Tables tables;
  auto train = tables.with("c,a,y\nred,1,0\nblue,2,1\nred,3,0\n");
  train.categorical = {"c"};
  CHECK_THAT(Tables::failure(train),
             StartsWith("2: 'categorical' needs the values of the training table"));
  train.statistics_from = train.path;
  const auto dataset = build("csv", train);
  CHECK(dataset->layout()[0].shape == std::vector<std::int64_t>{3});
  CHECK(features(*dataset) == Matrix{{0, 1, 1}, {1, 0, 2}, {0, 1, 3}});
  auto val = tables.with("c,a,y\ngreen,1,0\n", "val.csv");
  val.categorical = {"c"};
  val.statistics_from = train.path;
  CHECK_THAT(Tables::failure(val),
             Contains("val.csv:2:1: the value 'green' of 'c' does not occur in ") &&
                 Contains("train.csv"));
  val = tables.with("c,a,y\n,1,0\n", "val.csv");
  val.categorical = {"c"};
  val.statistics_from = train.path;
  CHECK_THAT(Tables::failure(val), Contains("val.csv:2:1: the value of 'c' is missing"));
  val.missing = Missing::constant;
  CHECK(features(*build("csv", val)) == Matrix{{0, 0, 1}});
}

TEST_CASE(
    "CSV: feature names include the categories, and a column without any category is an error") {
  Tables tables;
  auto options = tables.with("c,a,y\nred,1,0\nblue,2,1\n");
  options.categorical = {"c"};
  options.features = {"a", "c"};
  options.statistics_from = options.path;
  CHECK(facts("csv", options).feature_names == std::vector<std::string>{"a", "c=blue", "c=red"});
  options = tables.with("c,y\n,0\n,1\n");
  options.categorical = {"c"};
  options.statistics_from = options.path;
  options.missing = Missing::constant;
  CHECK_THAT(Tables::failure(options), Contains("every value of column 'c' is missing"));
}

TEST_CASE("CSV: missing numbers are an error, filled or dropped, depending on 'missing'") {
  Tables tables;
  auto options = tables.with("a,b,y\n1,NA,0\n3,5,1\n,7,0\n");
  CHECK_THAT(Tables::failure(options),
             Contains("train.csv:2:3: the value of 'b' is missing\nhint: set 'missing' to mean"));
  options.missing = Missing::constant;
  options.missing_value = -1;
  CHECK(features(*build("csv", options)) == Matrix{{1, -1}, {3, 5}, {-1, 7}});
  options.missing = Missing::drop;
  CHECK(features(*build("csv", options)) == Matrix{{3, 5}});
  options.missing = Missing::mean;
  CHECK_THAT(Tables::failure(options),
             StartsWith("2: 'missing: mean' needs the values of the training table"));
  options.statistics_from = options.path;
  CHECK(features(*build("csv", options)) == Matrix{{1, 6}, {3, 5}, {2, 7}});
  options = tables.with("a,y\n1,\n");
  CHECK_THAT(Tables::failure(options), Contains("train.csv:2:3: the label is missing"));
  options.missing = Missing::drop;
  CHECK_THAT(Tables::failure(options), Contains("has no rows without a missing value"));
}

TEST_CASE("CSV: an invalid table is an error with line and column") {
  Tables tables;
  const auto failure = [&](const std::string& text) { return Tables::failure(tables.with(text)); };
  CHECK_THAT(failure(""),
             Contains("train.csv is empty: it must begin with a line of column names"));
  CHECK_THAT(failure("a,y\n"), Contains("train.csv has no rows"));
  CHECK_THAT(failure("a,price\n1,2\n"), Contains("train.csv has no column 'y'"));
  auto near = tables.with("a,price\n1,2\n");
  near.label = "prize";
  CHECK_THAT(Tables::failure(near),
             Contains("train.csv has no column 'prize'; its first line was split"));
  CHECK_THAT(failure("y\n1\n"), Contains("has no columns except the label"));
  CHECK_THAT(failure("a,a,y\n1,2,0\n"), Contains("has two columns named 'a'"));
  CHECK_THAT(failure("a,y\n1,0\n1,2,3\n"),
             Contains("train.csv:3:1: the line has 3 fields, but the first line names 2 columns"));
  CHECK_THAT(failure("a,y\n1,0\n1x,1\n"),
             Contains("train.csv:3:1: '1x' in column 'a' is not a number\nhint: if it is a name"));
  CHECK_THAT(failure("a,y\ninf,0\n"), Contains("'inf' in column 'a' is not a number"));
  CHECK_THAT(failure("a,y\n1e99,0\n"),
             Contains("train.csv:2:1: 1e+99 does not fit a 32-bit float"));
  CHECK_THAT(failure("a,y\n1 ,0\n"), Contains("'1 ' in column 'a' is not a number"));
  auto options = tables.with("a,y\n1,0\n");
  options.rows = 2;
  CHECK_THAT(
      Tables::failure(options),
      Contains("train.csv ends at byte 8 (line 2) and has 1 row, but 'rows' is 2; the file may be "
               "cut off"));
  options = tables.with("a,y\n1,0\n");
  options.delimiter = "::";
  CHECK_THAT(Tables::failure(options), StartsWith("2: delimiter must be one byte"));
  options = tables.with("a,y\n1,0\n");
  options.features = {"a", "y"};
  CHECK_THAT(Tables::failure(options), StartsWith("2: the label 'y' must not be in 'features'"));
  options = tables.with("a,y\n1,0.5\n");
  options.label_type = LabelType::number;
  CHECK(values<float>(*build("csv", options), 0, 1) == std::vector<float>{0.5});
  options = tables.with("a,y\n1,-1e99\n");
  options.label_type = LabelType::number;
  CHECK_THAT(Tables::failure(options),
             Contains("train.csv:2:3: -1e+99 does not fit a 32-bit float"));
}

TEST_CASE("CSV: with 'rows' every truncation of a table is an error") {
  Tables tables;
  std::string text = "a,b,y\n";
  std::int64_t rows = 0;
  for (; text.size() < 4096; ++rows)
    text += std::to_string(rows * 7919 % 1000) + ".5,\"" + std::to_string(rows) + "\",1\n";
  auto options = tables.with(text);
  options.rows = rows;
  REQUIRE(build("csv", options)->size() == rows);
  REQUIRE(build("csv",
                [&] {
                  options =
                      tables.with(text.substr(0, text.size() - 1));  // without the final line break
                  options.rows = rows;
                  return options;
                }())
              ->size() == rows);
  for (std::size_t length = 0; length + 1 < text.size(); ++length) {
    options = tables.with(text.substr(0, length));
    options.rows = rows;
    const std::string failure = Tables::failure(options);
    if (!failure.starts_with("9: ") || failure.find("train.csv") == std::string::npos)
      FAIL(length << ": " << failure);
  }
}

TEST_CASE("CSV: class numbers may be written as whole floats") {
  Tables tables;
  const auto dataset = build("csv", tables.with("a,y\n1,0.0\n1,10.0\n1,2.0\n1,1\n"));
  CHECK(dataset->classes() == 11);
  CHECK(dataset->class_names().empty());
  CHECK(values<std::int64_t>(*dataset, 1, 1) == std::vector<std::int64_t>{10});
  CHECK(values<std::int64_t>(*dataset, 2, 1) == std::vector<std::int64_t>{2});
  auto options = tables.with("a,y\n1,1.0\n");
  options.statistics_from = tables.with("a,y\n1,0.0\n1,12.0\n", "all.csv").path;
  options.path = options.path.parent_path() / "train.csv";
  CHECK(build("csv", options)->classes() == 13);
}

TEST_CASE("CSV: numbers that are not class numbers are an error unless 'classes' lists them") {
  Tables tables;
  const auto failure = [&](const std::string& text) { return Tables::failure(tables.with(text)); };
  CHECK_THAT(failure("a,y\n1,1\n1,-1\n"),
             Contains("train.csv:3:3: the label must be a class number (0, 1, 2, ...), got '-1'") &&
                 Contains("'classes'"));
  CHECK_THAT(failure("a,y\n1, 0\n1,1\n"),
             Contains("train.csv:2:3: the label must be a class number (0, 1, 2, ...), got ' 0'"));
  CHECK_THAT(failure("a,y\n1,1\n1,1\n1,0.5\n"),
             Contains("train.csv:4:3: the label must be a class number (0, 1, 2, ...), got '0.5'"));
  CHECK_THAT(failure("a,y\n1,4e9\n"),
             Contains("train.csv:2:3: the label must be a class number (0, 1, 2, ...), got '4e9'"));
  auto options = tables.with("a,y\n1,1\n1,-1\n");
  options.classes = {"-1", "1"};
  CHECK(values<std::int64_t>(*build("csv", options), 0, 1) == std::vector<std::int64_t>{1});
  CHECK(build("csv", tables.with("a,y\n1,-1\n1,no\n"))->class_names() ==
        std::vector<std::string>{"-1", "no"});
}

TEST_CASE("CSV: the error for a missing column shows how the header was split and a similar name") {
  Tables tables;
  const auto failure = [&](const std::string& text) { return Tables::failure(tables.with(text)); };
  CHECK_THAT(failure("a;y\n1;0\n"),
             Contains("has no column 'y'; its first line was split at ',' into 1 name, but "
                      "contains ';'\nhint: set 'delimiter: \";\"'"));
  CHECK_THAT(failure("a,Y\n1,0\n"),
             Contains("has no column 'y'; its first line was split at ',' into 2 "
                      "names\nhint: use 'Y'"));
}

TEST_CASE("CSV: the label of each row is stored as a number, not as text") {
  Tables tables;
  std::string text = "a,y\n";
  for (int i = 0; i < 200'000; ++i) text += i % 2 == 0 ? "1,a class with a long name\n" : "1,b\n";
  auto options = tables.with(text);
  const auto dataset = build("csv", options);
  CHECK(dataset->footprint().memory == std::uint64_t{200'000} * (4 + 8));
  CHECK(dataset->class_names() == std::vector<std::string>{"a class with a long name", "b"});
  CHECK(values<std::int64_t>(*dataset, 199'999, 1) == std::vector<std::int64_t>{1});
}

TEST_CASE("CSV: 'rows' includes rows that are dropped for missing values") {
  Tables tables;
  auto options = tables.with("a,y\n1,0\n,1\n");
  options.missing = Missing::drop;
  options.rows = 2;
  CHECK(build("csv", options)->size() == 1);
}

TEST_CASE("CSV: reading is linear in the number of columns") {
  Tables tables;
  const auto all_columns = [&](std::size_t columns) {
    return [options = tables.with(wide_table(columns))] { (void)build("csv", options); };
  };
  CHECK(growth_per_doubling(all_columns, 1'000) <= kMostPerDoubling);
  const auto named_columns = [&](std::size_t columns) {
    auto options = tables.with(wide_table(columns));
    for (std::size_t i = 0; i < columns; ++i) options.features.push_back(fmt::format("c{}", i));
    for (std::size_t i = 0; i < columns; i += 2) options.categorical.push_back(options.features[i]);
    options.statistics_from = options.path;
    return [options] { (void)build("csv", options); };
  };
  CHECK(growth_per_doubling(named_columns, 500) <= kMostPerDoubling);
}

TEST_CASE("CSV: reading is linear in the number of rows") {
  Tables tables;
  const auto rows = [&](std::size_t count) {
    std::string text = "a,y\n";
    for (std::size_t i = 0; i < count; ++i) text += fmt::format("{},class{}\n", i, i % 1000);
    return [options = tables.with(text)] { (void)build("csv", options); };
  };
  CHECK(growth_per_doubling(rows, 1'000) <= kMostPerDoubling);
}
