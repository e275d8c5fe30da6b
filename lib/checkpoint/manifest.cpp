#include "checkpoint/manifest.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "checkpoint/names.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

namespace trainctl::checkpoint {
namespace {

constexpr std::int64_t kFormat = 1;
constexpr int kMostRanks = 65'536;
constexpr std::array<std::string_view, 13> kKeys{
    "format",  "epoch", "step_in_epoch", "global_step", "world_size", "reason", "value",
    "monitor", "parts", "config_hash",   "written_at",  "version",    "facts"};
constexpr std::array<std::string_view, 3> kPartKeys{"file", "bytes", "checksum"};

void expect_keys(const Json& object, std::span<const std::string_view> keys) {
  ENSURE(checkpoint, object.is_object(), "it is no JSON object");
  for (const auto& [key, value] : object.items()) {
    ENSURE(checkpoint, std::ranges::find(keys, key) != keys.end(), "unknown key '{}'",
           printable(key));
  }
  for (const std::string_view key : keys)
    ENSURE(checkpoint, object.contains(key), "'{}' is missing", key);
}

std::int64_t whole(const Json& object, const char* key) {
  const Json& value = object.at(key);
  ENSURE(checkpoint, value.is_number_integer(), "'{}' is no whole number", key);
  const bool fits =
      !value.is_number_unsigned() || std::in_range<std::int64_t>(value.get<std::uint64_t>());
  ENSURE(checkpoint, fits, "'{}' is too large", key);
  return value.get<std::int64_t>();
}

/// A whole number that its type holds.
template <class Number>
Number whole_as(const Json& object, const char* key) {
  const std::int64_t value = whole(object, key);
  ENSURE(checkpoint, std::in_range<Number>(value), "'{}' is {}", key, value);
  return static_cast<Number>(value);
}

std::string text(const Json& object, const char* key) {
  const Json& value = object.at(key);
  ENSURE(checkpoint, value.is_string(), "'{}' is no text", key);
  return value.get<std::string>();
}

std::optional<double> monitored(const Json& object) {
  const Json& value = object.at("value");
  if (value.is_null()) return std::nullopt;
  ENSURE(checkpoint, value.is_number(), "'value' is no number");
  return value.get<double>();
}

std::vector<Manifest::Part> parts_of(const Json& object) {
  const Json& list = object.at("parts");
  ENSURE(checkpoint, list.is_array(), "'parts' is no list");
  std::vector<Manifest::Part> parts;
  for (const Json& part : list) {
    in_context(fmt::format("part {}", parts.size()), [&] {
      expect_keys(part, kPartKeys);
      parts.push_back({text(part, "file"), whole_as<std::uint64_t>(part, "bytes"),
                       whole_as<std::uint32_t>(part, "checksum")});
    });
  }
  return parts;
}

std::map<std::string, std::string> facts_of(const Json& object) {
  const Json& facts = object.at("facts");
  ENSURE(checkpoint, facts.is_object(), "'facts' is no JSON object");
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : facts.items()) {
    ENSURE(checkpoint, value.is_string(), "the fact '{}' is no text", printable(key));
    out[key] = value.get<std::string>();
  }
  return out;
}

/// Before the keys: those of another format may be others.
void expect_format(const Json& document) {
  ENSURE(checkpoint, document.is_object() && document.contains("format"), "'format' is missing");
  const std::int64_t format = whole(document, "format");
  ENSURE(checkpoint, format <= kFormat, "was written by a newer trainctl (manifest format {})",
         format);
  ENSURE(checkpoint, format == kFormat, "'format' is {}", format);
}

}  // namespace

void check(const Manifest& manifest) {
  const auto expect_not_negative = [](const char* key, std::int64_t value) {
    ENSURE(checkpoint, value >= 0, "'{}' is {}; it is never negative", key, value);
  };
  expect_not_negative("epoch", manifest.epoch);
  expect_not_negative("step_in_epoch", manifest.step_in_epoch);
  expect_not_negative("global_step", manifest.global_step);
  ENSURE(checkpoint, manifest.world_size >= 1 && manifest.world_size <= kMostRanks,
         "'world_size' is {}; it is from 1 to {}", manifest.world_size, kMostRanks);
  ENSURE(checkpoint, std::cmp_equal(manifest.parts.size(), manifest.world_size),
         "{} parts are listed for a world size of {}", manifest.parts.size(), manifest.world_size);
  for (int rank = 0; rank < manifest.world_size; ++rank) {
    const std::string& file = manifest.parts[static_cast<std::size_t>(rank)].file;
    ENSURE(checkpoint, file == part_name(rank), "the part of rank {} is named '{}', not '{}'", rank,
           printable(file), part_name(rank));
  }
}

Json to_json(const Manifest& manifest) {
  Json parts = Json::array();
  for (const Manifest::Part& part : manifest.parts) {
    parts.push_back(Json{{"file", part.file}, {"bytes", part.bytes}, {"checksum", part.checksum}});
  }
  const bool finite = manifest.value && std::isfinite(*manifest.value);
  Json facts = Json::object();
  for (const auto& [key, value] : manifest.facts) facts[key] = value;
  return {{"format", kFormat},
          {"epoch", manifest.epoch},
          {"step_in_epoch", manifest.step_in_epoch},
          {"global_step", manifest.global_step},
          {"world_size", manifest.world_size},
          {"reason", manifest.reason},
          {"value", finite ? Json(*manifest.value) : Json(nullptr)},
          {"monitor", manifest.monitor},
          {"parts", parts},
          {"config_hash", manifest.config_hash},
          {"written_at", manifest.written_at},
          {"version", manifest.version},
          {"facts", facts}};
}

Manifest from_json(const Json& document, const std::string& label) {
  return in_context(label, [&] {
    expect_format(document);
    expect_keys(document, kKeys);
    Manifest manifest;
    manifest.epoch = whole(document, "epoch");
    manifest.step_in_epoch = whole(document, "step_in_epoch");
    manifest.global_step = whole(document, "global_step");
    manifest.world_size = whole_as<int>(document, "world_size");
    manifest.reason = text(document, "reason");
    manifest.value = monitored(document);
    manifest.monitor = text(document, "monitor");
    manifest.parts = parts_of(document);
    manifest.config_hash = text(document, "config_hash");
    manifest.written_at = text(document, "written_at");
    manifest.version = text(document, "version");
    manifest.facts = facts_of(document);
    check(manifest);
    return manifest;
  });
}

}  // namespace trainctl::checkpoint
