#include "study/init/starters.hpp"

using namespace trainctl;
using namespace trainctl::study;
using namespace trainctl::study::testing;

namespace {

/// Returns a table: the header, and `count` rows that `row(i)` returns.
std::string table(const std::string& header, int count, const auto& row) {
  std::string text = header + "\n";
  for (int i = 0; i < count; ++i) text += fmt::format("{}\n", row(i));
  return text;
}

}  // namespace

TEST_CASE("init: a table of classes with missing values, categories and an index") {
  const StarterFolder folder;
  folder.write("churn.csv", table("id,age,plan,churned", 60, [](int i) {
                 return fmt::format("{},{},{},{}", i, i % 7 == 0 ? "?" : std::to_string(i * i % 83),
                                    i % 3 == 0 ? "basic" : "on", i % 5 == 0 ? "yes" : "no");
               }));
  const Starter starter = folder.make("tabular", "churn.csv");
  CHECK(fact(starter, "rows") == "60");
  CHECK(fact(starter, "target") == "churned: the last column; 2 classes of 12 to 48 rows");
  CHECK(fact(starter, "features") == "1 numeric, 1 categorical");
  CHECK(fact(starter, "missing") == "9 values");
  CHECK(fact(starter, "not used") == "id (counts the rows)");
  CHECK_THAT(starter.yaml, Contains("features: [age, plan]") && Contains("categorical: [plan]") &&
                               Contains("missing: mean") && Contains("\"?\"") &&
                               Contains("split: { val: 0.2, stratify: true }") &&
                               Contains("loss: cross_entropy") && Contains("auroc") &&
                               Contains("sampler: class_balanced") && !Contains("classes:"));
  CHECK(folder.problems(starter).empty());
}

TEST_CASE("init: many different numbers are a regression") {
  const StarterFolder folder;
  folder.write("houses.csv", table("area;price", 40, [](int i) {
                 return fmt::format("{};{}.5", i * 7 % 13, i * i);
               }));
  const Starter starter = folder.make("tabular", "houses.csv");
  CHECK(fact(starter, "target") ==
        "price: the last column; regression (the numbers are not classes)");
  CHECK_THAT(starter.yaml, Contains("delimiter: \";\"") && Contains("label_type: number") &&
                               Contains("loss: mse") && !Contains("stratify"));
  CHECK(folder.problems(starter).empty());
}

TEST_CASE("init: numbered classes are listed in the order of the numbers") {
  const StarterFolder folder;
  folder.write("grades.csv", table("grade\tx", 66, [](int i) {
                 return fmt::format("{}\t{}", i % 11 - 1, i * i % 17);
               }));
  const Starter starter = folder.make("tabular", "grades.csv", "grade");
  CHECK(fact(starter, "target") == "grade: chosen by --target; 11 classes of 6 to 6 rows");
  CHECK_THAT(starter.yaml,
             Contains(R"(classes: ["-1", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"])"));
  CHECK(folder.problems(starter).empty());
}

TEST_CASE("init: a column with a usual name is the target") {
  const StarterFolder folder;
  const auto row = [](int i) { return fmt::format("{},{}", i % 2, i * i % 19); };
  folder.write("a.csv", table("Label,x", 20, row));
  CHECK_THAT(fact(folder.make("tabular", "a.csv"), "target"), StartsWith("Label: chosen by its"));
  CHECK_THAT(fact(folder.make("tabular", "a.csv", "x"), "target"), StartsWith("x: chosen by --"));
  CHECK_THAT(folder.failure("tabular", "a.csv", "labell"),
             StartsWith("9: ") && Contains("'labell'"));
}

TEST_CASE("init: names of columns and classes are quoted where YAML needs it") {
  const StarterFolder folder;
  folder.write("odd.csv", table("\"a: b\",no,\"#y\"", 20, [](int i) {
                 return fmt::format("{},{},{}", i * i % 7, i * i % 5, i % 2 ? "on" : "[x");
               }));
  CHECK(folder.problems(folder.make("tabular", "odd.csv")).empty());
}

TEST_CASE("init: references in names of files and columns are plain text") {
  const StarterFolder folder;
  fs::create_directories(folder / "${x}");
  folder.write("${x}/t.csv", table("${name},${a b},y", 30, [](int i) {
                 return fmt::format("{},{},{}", i * i % 7, i % 3 ? "${y}" : "${", i % 2);
               }));
  CHECK(folder.problems(folder.make("tabular", "${x}/t.csv")).empty());
}

TEST_CASE("init: separators in quoted names do not count") {
  const StarterFolder folder;
  folder.write("t.csv", table("\"a, b, c\nd, e\";y", 20,
                              [](int i) { return fmt::format("{};{}", i * i % 7, i % 2); }));
  const Starter starter = folder.make("tabular", "t.csv");
  CHECK_THAT(starter.yaml, Contains("delimiter: \";\""));
  CHECK(folder.problems(starter).empty());
}

TEST_CASE("init: large integers are compared exactly") {
  const StarterFolder folder;
  folder.write("t.csv", table("id,code,y", 40, [](int i) {
                 return fmt::format("{},{},{}", 100'000'000 + i, 100'000'000 + i / 2, i % 2);
               }));
  const Starter starter = folder.make("tabular", "t.csv");
  CHECK(fact(starter, "not used") == "id (counts the rows)");
  CHECK_THAT(starter.yaml, Contains("features: [code]"));
}

TEST_CASE("init: columns that cannot be features are not used") {
  const StarterFolder folder;
  folder.write("t.csv", table("free,same,none,x,y", 200, [](int i) {
                 return fmt::format("text {},1,,{},{}", i, i * i % 23, i % 2);
               }));
  const Starter starter = folder.make("tabular", "t.csv");
  CHECK(fact(starter, "not used") ==
        "free (text with more than 100 values), same (one value in all rows), none (few values)");
  CHECK(folder.problems(starter).empty());
  folder.write("u.csv", table("id,y", 20, [](int i) { return fmt::format("{},{}", i, i % 2); }));
  CHECK_THAT(folder.failure("tabular", "u.csv"),
             EndsWith("can be a feature: id (counts the rows)"));
}

TEST_CASE("init: a file that is no usable table is refused with its cause") {
  const StarterFolder folder;
  const auto refused = [&](const std::string& text) {
    folder.write("t.csv", text);
    const std::string failure = folder.failure("tabular", "t.csv");
    CHECK_THAT(failure, StartsWith("9: "));
    return failure;
  };
  const auto row = [](int i) { return fmt::format("{},{}", i * i % 7, i % 2); };
  CHECK_THAT(refused(""), Contains("is empty"));
  CHECK_THAT(refused("a,y\n"), Contains("has 0 rows, but at least 10 are needed"));
  CHECK_THAT(refused(std::string("\x89PNG\0\1\2", 7)), Contains("but byte 4 is 0"));
  CHECK_THAT(refused(table("a", 20, [](int) { return "1"; })), Contains("no columns except"));
  CHECK_THAT(refused(table("1,2", 20, row)),
             Contains("must name the columns, got the numbers 1, 2"));
  CHECK_THAT(refused(table("a,a", 20, row)), Contains("has two columns named 'a'"));
  CHECK_THAT(refused(table("a,y", 20, row) + "1,2,3\n"), Contains("the line has 3 fields"));
  CHECK_THAT(refused(table("a,y", 20, row) + "1,\n"), Contains("has no value in 1 row\nhint: "));
  CHECK_THAT(refused(table("a,y", 20, [](int i) { return fmt::format("{},1", i); })),
             Contains("has the same value in all rows"));
  CHECK_THAT(refused(table("a, y", 20, row)), Contains("column ' y' has blanks around its name"));
  CHECK_THAT(refused(table("a,y", 20, [](int i) { return fmt::format("1, {}", i % 2); })),
             Contains("column 'y' has blanks") && EndsWith("hint: remove these blanks"));
  CHECK_THAT(refused(table("a,y", 20, [](int i) { return i % 2 ? "7,caf\xE9" : "8,tea"; })),
             Contains("in column 'y', the value 'caf\\xe9' must be valid UTF-8"));
  CHECK_THAT(refused(table("caf\xE9,y", 20, row)), Contains("the column name 'caf\\xe9' must be"));
  CHECK_THAT(
      refused(table("a,y", 30, [](int i) { return i % 3   ? "1,1"
                                                  : i % 2 ? "2,1.0"
                                                          : "3,0"; })),
      Contains("contains a number in two spellings, such as 1 and 1.0\nhint: "));
  CHECK_THAT(refused(table("a,y", 3'000, [](int i) { return fmt::format("1,name {}", i); })),
             Contains("has too many different texts for classes"));
}
