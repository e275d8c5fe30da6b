#include "base/json_archive.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

using namespace trainctl;

namespace {

struct Part {
  bool on = false;
  std::int64_t count = 0;
  std::uint64_t digest = 0;
  double best = 0;
  std::string at;
  std::optional<double> mean;
  std::vector<std::uint64_t> all;
  double inner = 0;

  void serialize(StateArchive& archive) {
    archive.value("on", &on);
    archive.value("count", &count);
    archive.value("digest", &digest);
    archive.value("best", &best);
    archive.value("at", &at);
    archive.value("mean", &mean);
    archive.value("all", &all);
    archive.group("below", [&] { archive.value("inner", &inner); });
  }
};

Part filled() {
  return {.on = true,
          .count = std::numeric_limits<std::int64_t>::min(),
          .digest = std::numeric_limits<std::uint64_t>::max(),
          .best = -std::numeric_limits<double>::infinity(),
          .at = "in epoch 3",
          .mean = 0.1,
          .all = {0, std::numeric_limits<std::uint64_t>::max()},
          .inner = std::nan("")};
}

/// Returns the error of reading the values back; empty on success.
std::string error_of(const Json& values) {
  Part part;
  try {
    recall(part, values);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::checkpoint);
    return error.what();
  }
  return "";
}

Json with(const char* key, const Json& value) {
  Part part = filled();
  Json values = remember(part);
  values[key] = value;
  return values;
}

}  // namespace

TEST_CASE("StateArchive: a round trip through JSON restores every value") {
  Part written = filled();
  const Json values = Json::parse(to_line(remember(written)));
  Part read;
  read.mean = 7;
  recall(read, values);
  CHECK(read.on);
  CHECK(read.count == written.count);
  CHECK(read.digest == written.digest);
  CHECK(read.best == written.best);
  CHECK(read.at == written.at);
  CHECK(read.mean == written.mean);
  CHECK(read.all == written.all);
  CHECK(std::isnan(read.inner));
  CHECK(remember(read) == values);
  written.mean.reset();
  recall(read, remember(written));
  CHECK_FALSE(read.mean.has_value());
}

TEST_CASE("StateReader: the error names the missing, unknown or mistyped key") {
  Part part = filled();
  for (const char* key : {"on", "count", "digest", "best", "at", "mean", "all", "below"}) {
    Json values = remember(part);
    values.erase(key);
    CHECK(error_of(values) == "the saved value '" + std::string(key) + "' is missing");
    CHECK_THAT(error_of(with(key, Json{{"odd", 1.5}})),
               StartsWith("the saved value '" +
                          std::string(key == std::string("below") ? "below.inner" : key)));
  }
  CHECK(error_of(with("more", 1)) == "the saved value 'more' is unknown");
  CHECK(error_of(with("below", Json{{"inner", "1p+0"}, {"other", 2}})) ==
        "the saved value 'below.other' is unknown");
  CHECK(error_of(with("below", Json{{"inner", 1.0}})) ==
        "the saved value 'below.inner' must be a number in a string, such as \"1.8p+1\", got 1.0");
  CHECK(error_of(with("count", std::numeric_limits<std::uint64_t>::max())) ==
        "the saved value 'count' must be an integer, got 18446744073709551615");
  CHECK_THAT(error_of(with("digest", -1)), Contains("an integer of at least 0, got -1"));
  CHECK_THAT(error_of(with("all", Json::array({1, -1}))), Contains("'all'"));
  CHECK_THAT(error_of(Json(nullptr)), Contains("must be a JSON object, got null"));
}

TEST_CASE("StateReader: has() looks only at the current level") {
  const Json values{{"new", true}, {"below", Json{{"inner", true}}}};
  StateReader reader(values);
  CHECK(reader.has("new"));
  CHECK_FALSE(reader.has("inner"));
  reader.group("below", [&] {
    bool inner = false;
    CHECK(reader.has("inner"));
    CHECK_FALSE(reader.has("new"));
    reader.value("inner", &inner);
  });
  CHECK(StateWriter().has("any key"));
}
