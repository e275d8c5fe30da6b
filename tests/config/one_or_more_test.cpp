#include "config/schema/dump.hpp"
#include "config/schema/schema.hpp"
#include "config/support.hpp"
#include "config/tree/yaml.hpp"
#include "support/catch.hpp"

using namespace trainctl;

namespace {

struct Crop {
  static constexpr auto kSummary = "A crop.";
  config::OneOrMore<int> size{{7}};

  static void describe(config::Describe<Crop>& options) {
    options.field("size", &Crop::size, {.at_least = 1}, "Extent.");
  }
};

Crop crop(const std::string& yaml, config::Diagnostics& diagnostics) {
  Crop out;
  const config::Schema schema = config::schema_of<Crop>();
  const config::Vocabulary none;
  config::Reader(none, diagnostics).object(sample::tree(yaml), schema, "crop", &out);
  return out;
}

std::string written_values(const std::vector<int>& values) {
  const Crop options{{values}};
  return config::to_json(config::write_options(config::schema_of<Crop>(), &options)).dump();
}

}  // namespace

TEST_CASE("OneOrMore: a single value or a list is accepted") {
  config::Diagnostics diagnostics;
  CHECK(crop("size: 28", diagnostics).size.values == std::vector{28});
  CHECK(crop("size: [28, 32]", diagnostics).size.values == std::vector{28, 32});
  CHECK(crop("{}", diagnostics).size.values == std::vector{7});
  CHECK(diagnostics.error_count() == 0);
  CHECK(written_values({28}) == R"({"size":28})");
  CHECK(written_values({28, 32}) == R"({"size":[28,32]})");
}

TEST_CASE("OneOrMore: each value must be within the bounds") {
  for (const char* text : {"size: 0", "size: [3, 0]", "size: {a: 1}", "size: wide"}) {
    config::Diagnostics diagnostics;
    crop(text, diagnostics);
    CHECK(diagnostics.error_count() == 1);
  }
}

TEST_CASE("OneOrMore: the type name and the JSON schema include both forms") {
  const config::Schema schema = config::schema_of<Crop>();
  CHECK(config::type_text(schema.fields[0].type, {}) == "integer or list of integers");
  const Json json = config::json_schema(schema, {});
  CHECK(json["properties"]["size"]["anyOf"][0]["type"] == "array");
  CHECK(json["properties"]["size"]["anyOf"][1]["anyOf"][0]["type"] == "integer");
}
