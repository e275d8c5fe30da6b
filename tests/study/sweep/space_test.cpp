#include "base/error.hpp"
#include "study/sweep/sweep_space.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <set>
#include <string>

using namespace trainctl;
using namespace trainctl::study;

namespace {

std::vector<Dimension> dimensions(const std::vector<std::string>& words) {
  std::vector<Dimension> all;
  for (const std::string& word : words) all.push_back(parse_dimension(word));
  return all;
}

double number(const report::Overrides& overrides, std::size_t at) {
  return std::strtod(overrides.at(at).second.c_str(), nullptr);
}

Settings listed(const std::string& text) {
  const TempFolder folder;
  put_text(folder / "runs.yaml", text);
  return listed_settings(folder / "runs.yaml");
}

}  // namespace

TEST_CASE("is_dimension: several values or a call make a dimension") {
  for (const char* word : {"a=1,2", "a.b=range(1,4)", "a=choice(x)", "a=uniform(0,1)",
                           "a=log(1e-4,0.1)", "+a=1,2", "++a={x: 1},{x: 2}"}) {
    CAPTURE(word);
    CHECK(is_dimension(word));
  }
  for (const char* word :
       {"a=1", "a=[1,2]", "a={type: sgd, lr: 0.1}", "a='x,y'", "~a", "a=", "=1,2", "a=logistic"}) {
    CAPTURE(word);
    CHECK_FALSE(is_dimension(word));
  }
}

TEST_CASE("grid_settings: returns every combination, and the last key varies fastest") {
  const Settings settings = grid_settings(dimensions({"a=1,2", "b.c=[1,2],x"}));
  REQUIRE(settings.size() == 4);
  CHECK(settings[1] == report::Overrides{{"a", "1"}, {"b.c", "x"}});
  CHECK(settings[2] == report::Overrides{{"a", "2"}, {"b.c", "[1,2]"}});
  CHECK_THROWS_WITH(grid_settings(dimensions({"a=1,2", "lr=log(0.1,1)"})),
                    Contains("lr: log() needs a number of samples") && Contains("--samples"));
}

TEST_CASE("parse_dimension: invalid bounds are an error with their values") {
  CHECK_THROWS_WITH(parse_dimension("k=uniform(1)"), Contains("k: uniform() needs a lowest"));
  CHECK_THROWS_WITH(parse_dimension("k=uniform(2,1)"), Contains("first value of uniform(2,1)"));
  CHECK_THROWS_WITH(parse_dimension("k=log(0,1)"), Contains("must be above 0"));
  CHECK_THROWS_WITH(parse_dimension("k=log(a,1)"), Contains("'a' is not a number"));
  CHECK_THROWS_WITH(parse_dimension("k=uniform(0,inf)"), Contains("'inf' is not a number"));
  CHECK_THROWS_WITH(random_settings(dimensions({"k=1,2", "k=3,4"}), 2, 0),
                    Contains("k is given twice"));
  CHECK_THROWS_WITH(random_settings({}, 2, 0), Contains("no key is varied"));
}

TEST_CASE(
    "random_settings: values are in their range, and those of log() uniform in the logarithm") {
  const Settings settings =
      random_settings(dimensions({"u=uniform(-1,3)", "l=log(1e-4,1)"}), 400, 7);
  int below = 0;
  for (const report::Overrides& one : settings) {
    CHECK(number(one, 0) >= -1);
    CHECK(number(one, 0) <= 3);
    CHECK(number(one, 1) >= 1e-4);
    CHECK(number(one, 1) <= 1);
    below += number(one, 1) < 1e-2 ? 1 : 0;
  }
  CHECK(below > 150);
  CHECK(below < 250);
}

TEST_CASE("random_settings: a sample depends only on seed, key and index") {
  const Settings few = random_settings(dimensions({"a=uniform(0,1)", "b=x,y,z"}), 3, 1);
  const Settings many = random_settings(dimensions({"a=uniform(0,1)", "b=x,y,z"}), 50, 1);
  const Settings turned = random_settings(dimensions({"b=x,y,z", "a=uniform(0,1)"}), 50, 1);
  for (std::size_t i = 0; i < few.size(); ++i) CHECK(few[i] == many[i]);
  for (std::size_t i = 0; i < many.size(); ++i) CHECK(many[i][0] == turned[i][1]);
  CHECK(random_settings(dimensions({"a=uniform(0,1)"}), 3, 2)[0][0] != few[0][0]);
  std::set<std::string> drawn;
  for (const report::Overrides& one : many) drawn.insert(one[1].second);
  CHECK(drawn == std::set<std::string>{"x", "y", "z"});
}

TEST_CASE("latin_hypercube: each part of each range has one sample") {
  constexpr std::size_t kCount = 25;
  const Settings cube =
      latin_hypercube(dimensions({"u=uniform(0,1)", "v=uniform(0,1)", "c=1,2,3,4,5"}), kCount, 3);
  REQUIRE(cube.size() == kCount);
  for (const std::size_t key : {0U, 1U}) {
    std::set<int> parts;
    for (const report::Overrides& one : cube)
      parts.insert(static_cast<int>(number(one, key) * kCount));
    CHECK(parts.size() == kCount);
  }
  std::multiset<std::string> choices;
  for (const report::Overrides& one : cube) choices.insert(one[2].second);
  for (const char* choice : {"1", "2", "3", "4", "5"}) CHECK(choices.count(choice) == 5);
  CHECK(latin_hypercube(dimensions({"u=uniform(0,1)"}), 4, 3) ==
        latin_hypercube(dimensions({"u=uniform(0,1)"}), 4, 3));
}

TEST_CASE("listed_settings: reads runs in the order of the file") {
  const Settings settings =
      listed("- {optimizer.lr: 0.1, model.hidden: [32, 16]}\n- optimizer: {type: sgd, lr: 1}\n");
  REQUIRE(settings.size() == 2);
  CHECK(settings[0] == report::Overrides{{"optimizer.lr", "0.1"}, {"model.hidden", "[32, 16]"}});
  CHECK(settings[1].front().second == "{type: sgd, lr: 1}");
}

TEST_CASE("listed_settings: an invalid list reports every problem with its line") {
  CHECK_THROWS_WITH(listed("optimizer.lr: 0.1\n"), Contains("must be a list of runs"));
  CHECK_THROWS_WITH(listed("[]\n"), Contains("must be a list of runs"));
  CHECK_THROWS_WITH(listed("- 3\n- {}\n- {a: 1, a: 2}\n"),
                    Contains("runs.yaml:1:") && Contains("runs.yaml:2:") &&
                        Contains("runs.yaml:3:") && Contains("a run must be a map"));
}
