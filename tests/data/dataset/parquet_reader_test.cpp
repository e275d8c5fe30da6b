#include "data/formats/table.hpp"
#include "data/sources.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"
#include "support/golden_folder.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
using spec::dataset::Missing;

namespace {

const std::filesystem::path kTable = golden_folder() / "data/table.parquet";

spec::dataset::Parquet parquet_at(const std::filesystem::path& path) {
  spec::dataset::Parquet options;
  options.path = path;
  options.label = "y";
  options.features = {"b", "a"};
  return options;
}

std::string failure(const spec::dataset::Parquet& options) {
  return failure_of([&] { (void)build("parquet", options); });
}

}  // namespace

TEST_CASE("Parquet: the error of a build without Arrow says what is missing") {
  if (has_parquet()) skip("this build reads Parquet");
  CHECK_THAT(failure(parquet_at(kTable)),
             StartsWith("2: Parquet needs Arrow, but libtrainctl_parquet.so cannot be loaded"));
}

TEST_CASE("Parquet: numeric and categorical columns are read, and other types are an error") {
  if (!has_parquet()) skip("this build does not read Parquet");
  auto options = parquet_at(kTable);
  CHECK_THAT(failure(options),
             Contains("table.parquet: row 1, column 'b': the value of 'b' is missing"));
  options.missing = Missing::constant;
  options.missing_value = -1;
  const auto dataset = build("parquet", options);
  CHECK(dataset->size() == 5);
  CHECK(dataset->classes() == 3);
  CHECK(values<float>(*dataset, 1, 0) == std::vector<float>{-1, 2});
  CHECK(values<float>(*dataset, 2, 0) == std::vector<float>{1.5, -1});
  CHECK(values<float>(*dataset, 4, 0) == std::vector<float>{3.5, 5});
  CHECK(values<std::int64_t>(*dataset, 3, 1) == std::vector<std::int64_t>{1});
  options.features = {"kind"};
  CHECK_THAT(failure(options),
             Contains("column 'kind': the column must be numeric, got type string\nhint: list it"));
  options.categorical = {"kind"};
  options.statistics_from = kTable;
  CHECK(values<float>(*build("parquet", options), 4, 0) == std::vector<float>{0, 1, 0});
  options.categorical = {};
  options.features = {"list"};
  CHECK_THAT(failure(options),
             Contains("column 'list': the column must be numeric, got type list"));
}

TEST_CASE("Parquet: every truncation is an error, and flipped bits never crash the reader") {
  if (!has_parquet()) skip("this build does not read Parquet");
  const TempFolder folder;
  const std::string whole = get_text(kTable);
  auto options = parquet_at(folder / "t.parquet");
  options.missing = Missing::drop;
  put_text(options.path, whole);
  for (std::size_t length = whole.size(); length-- > 0;) {
    std::filesystem::resize_file(options.path, length);
    const std::string found = failure(options);
    if (!found.starts_with("9: ")) FAIL(length << ": " << found);
  }
  std::size_t refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string bad = whole;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    put_text(options.path, bad);
    const std::string found = failure(options);
    if (found.starts_with("9: ") || found.starts_with("2: "))
      ++refused;
    else if (!found.empty())
      FAIL(i << ": " << found);
  }
  CHECK(refused > whole.size() / 4);
}

TEST_CASE("Parquet: a float16 column is read, and a date column is an error with its type") {
  if (!has_parquet()) skip("this build does not read Parquet");
  auto options = parquet_at(golden_folder() / "data/half.parquet");
  options.features = {"a"};
  options.missing = Missing::constant;
  options.missing_value = -1;
  const auto dataset = build("parquet", options);
  std::vector<float> found;
  for (std::int64_t i = 0; i < dataset->size(); ++i)
    found.push_back(values<float>(*dataset, i, 0)[0]);
  CHECK(found == std::vector<float>{1.5, -2, 65504, -1});
  options.features = {"d"};
  CHECK_THAT(failure(options),
             Contains("column 'd': the column must be numeric, got type date32[day]\n"
                      "hint: omit it from 'features'"));
}
