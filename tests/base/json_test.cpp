#include "base/json.hpp"

#include "support/catch.hpp"
#include "support/growth.hpp"

#include <string>

using namespace trainctl;

namespace {

std::string object_of(std::size_t keys) {
  std::string text = "{";
  for (std::size_t i = 0; i < keys; ++i)
    text += (i > 0 ? ",\"key" : "\"key") + std::to_string(i) + "\":1";
  return text + "}";
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

}  // namespace

TEST_CASE("parse_json: keys keep their order, and text that is not JSON is discarded") {
  CHECK(to_line(parse_json(R"({"b": [1, {"c": null}], "a": "x"})")) ==
        R"({"b":[1,{"c":null}],"a":"x"})");
  CHECK(parse_json("7") == 7);
  for (const char* text : {"", "{", "{\"a\": 1} x", "[1,]", "nan", "\"\xff\""})
    CHECK(parse_json(text).is_discarded());
}

TEST_CASE("parse_json: values nested more than 100 deep are discarded") {
  CHECK(parse_json(nested(100)).is_array());
  CHECK(parse_json(nested(101)).is_discarded());
  CHECK(parse_json("{\"a\": " + nested(101) + ", \"b\": 1}").is_discarded());
  CHECK(parse_json(std::string(1'000'000, '[')).is_discarded());
}

TEST_CASE("parse_json: an object of more than 10,000 keys is discarded") {
  CHECK(parse_json(object_of(10'000)).size() == 10'000);
  CHECK(parse_json(object_of(10'001)).is_discarded());
  CHECK(
      parse_json("[" + object_of(10'000) + ", {\"a\": " + object_of(10'001) + "}]").is_discarded());
  const std::string half = object_of(6'000);
  CHECK(parse_json("{\"a\": " + half + ", \"b\": " + half + "}").at("b").size() == 6'000);
}

TEST_CASE("growth: parsing JSON is linear in its objects, also where one has too many keys") {
  const auto of_objects = [](std::size_t count) {
    std::string text = "[{}";
    for (std::size_t i = 0; i < count; ++i) text += "," + object_of(100);
    return [text = text + "]"] { (void)parse_json(text); };
  };
  CHECK(growth_per_doubling(of_objects, 100) <= kMostPerDoubling);
  for (const char* item : {"{}", "[]", "1", R"({"a":1,"b":"c"})"}) {
    CAPTURE(item);
    const auto of_items = [&](std::size_t count) {
      std::string text = "{\"items\":[{}";
      for (std::size_t i = 0; i < count; ++i) text += std::string(",") + item;
      return [text = text + "]}"] { (void)parse_json(text); };
    };
    CHECK(growth_per_doubling(of_items, 1'000) <= kMostPerDoubling);
  }
  const auto of_keys = [](std::size_t count) {
    return [text = object_of(count)] { (void)parse_json(text); };
  };
  CHECK(growth_per_doubling(of_keys, 50'000) <= kMostPerDoubling);
}
