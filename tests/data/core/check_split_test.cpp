#include "data/core/pipeline.hpp"
#include "data/idx_files.hpp"
#include "spec/options/dataset.hpp"
#include "spec/options/transform.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

config::Stage at_line(config::Stage stage, int line) {
  stage.position.line = line;
  return stage;
}

spec::DataSplit mnist(const std::filesystem::path& root) {
  spec::dataset::Mnist options;
  options.root = root;
  return {at_line(config::make_stage("dataset", "mnist", options), 3), {}};
}

config::Stage crop_at(int size, int line) {
  spec::transform::RandomCrop options;
  options.size = {{size}};
  return at_line(config::make_stage("transform", "random_crop", options), line);
}

config::Stage normalize_at(std::size_t channels, int line) {
  spec::transform::Normalize options{std::vector<double>(channels, 0.5),
                                     std::vector<double>(channels, 1)};
  return at_line(config::make_stage("transform", "normalize", options), line);
}

spec::transform::GaussianBlur blur() {
  spec::transform::GaussianBlur options;
  options.kernel_size = {{3}};
  return options;
}

}  // namespace

TEST_CASE("check_split: a valid split has no problems, and its facts come from the headers") {
  const TempFolder folder;
  write_split(folder.path(), 12);
  spec::DataSplit split = mnist(folder.path());
  split.transforms = {crop_at(20, 4), normalize_at(1, 5)};
  const SplitCheck check = check_split(split);
  CHECK(check.problems.empty());
  REQUIRE(check.facts);
  CHECK(check.facts->samples == 12);
  CHECK(check.facts->classes == 10);
  CHECK(check.facts->image()->shape == std::vector<std::int64_t>{20, 20, 1});
}

TEST_CASE("check_split: mode=device reports a transform that the device cannot plan") {
  const TempFolder folder;
  write_split(folder.path(), 12);
  spec::DataSplit split = mnist(folder.path());
  split.transforms = {crop_at(20, 4), normalize_at(1, 5)};
  CHECK(check_split(split, spec::CacheMode::device).problems.empty());
  split.transforms.insert(split.transforms.begin() + 1,
                          at_line(config::make_stage("transform", "gaussian_blur", blur()), 6));
  CHECK(check_split(split).problems.empty());
  const SplitCheck check = check_split(split, spec::CacheMode::device);
  REQUIRE(check.problems.size() == 1);
  CHECK(check.problems[0].kind == ErrorKind::config);
  CHECK_THAT(check.problems[0].message,
             Contains("dataset.cache.mode=device: transform 'gaussian_blur' computes new pixels"));
}

TEST_CASE("check_split: missing files are one problem at the line of the data set") {
  const TempFolder folder;
  const SplitCheck check = check_split(mnist(folder.path()));
  REQUIRE(check.problems.size() == 1);
  CHECK(check.problems[0].position.line == 3);
  CHECK_THAT(check.problems[0].message,
             Contains("dataset 'mnist': ") && Contains("scripts/fetch-data mnist"));
  CHECK_FALSE(check.facts);
}

TEST_CASE("check_split: each transform that does not fit is a separate problem") {
  spec::DataSplit split{
      config::make_stage("dataset", "synthetic_digits", spec::dataset::SyntheticDigits{}),
      {crop_at(29, 4), crop_at(20, 5), crop_at(21, 6), normalize_at(3, 7), normalize_at(1, 8),
       crop_at(4, 9)}};
  const SplitCheck check = check_split(split);
  std::vector<int> lines;
  for (const Problem& problem : check.problems) lines.push_back(problem.position.line);
  CHECK(lines == std::vector<int>{4, 6, 7, 9});
  CHECK(check.facts->samples == 60'000);
  CHECK(check.facts->image()->shape == std::vector<std::int64_t>{20, 20, 1});
}
