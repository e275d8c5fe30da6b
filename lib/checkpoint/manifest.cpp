#include "checkpoint/manifest.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace trainctl::checkpoint {
namespace {

constexpr std::int64_t kFormat = 3;
constexpr int kMostRanks = 65'536;
constexpr std::array<std::string_view, 15> kKeys{
    "format",      "epoch",      "next_epoch", "step_in_epoch", "global_step",
    "world_size",  "reason",     "value",      "monitor",       "parts",
    "config_hash", "written_at", "version",    "facts",         "shared"};
constexpr std::array<std::string_view, 3> kPartKeys{"file", "bytes", "checksum"};
constexpr std::array<std::string_view, 2> kAliasKeys{"group", "same_as"};
constexpr std::array<std::string_view, 4> kSharedFileKeys{"group", "file", "bytes", "checksum"};
constexpr std::string_view kWeightsSuffix = ".safetensors";

void expect_keys(const Json& object, std::span<const std::string_view> keys) {
  ENSURE(checkpoint, object.is_object(), "it must be a JSON object");
  for (const auto& [key, value] : object.items()) {
    ENSURE(checkpoint, std::ranges::find(keys, key) != keys.end(), "unknown key '{}'",
           printable(key));
  }
  for (const std::string_view key : keys)
    ENSURE(checkpoint, object.contains(key), "'{}' is missing", key);
}

std::int64_t whole(const Json& object, const char* key) {
  const Json& value = object.at(key);
  ENSURE(checkpoint, value.is_number_integer(), "'{}' must be an integer", key);
  const bool fits =
      !value.is_number_unsigned() || std::in_range<std::int64_t>(value.get<std::uint64_t>());
  ENSURE(checkpoint, fits, "'{}' is too large", key);
  return value.get<std::int64_t>();
}

/// Returns an integer that fits its type.
template <class Number>
Number whole_as(const Json& object, const char* key) {
  const std::int64_t value = whole(object, key);
  ENSURE(checkpoint, std::in_range<Number>(value), "'{}' is out of range, got {}", key, value);
  return static_cast<Number>(value);
}

std::string text(const Json& object, const char* key) {
  const Json& value = object.at(key);
  ENSURE(checkpoint, value.is_string(), "'{}' must be a string", key);
  return value.get<std::string>();
}

std::optional<double> monitored(const Json& object) {
  const Json& value = object.at("value");
  if (value.is_null()) return std::nullopt;
  ENSURE(checkpoint, value.is_number(), "'value' must be a number");
  return value.get<double>();
}

std::vector<Manifest::Part> parts_of(const Json& object) {
  const Json& list = object.at("parts");
  ENSURE(checkpoint, list.is_array(), "'parts' must be a list");
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

std::vector<Manifest::SharedGroup> shared_of(const Json& object) {
  const Json& list = object.at("shared");
  ENSURE(checkpoint, list.is_array(), "'shared' must be a list");
  std::vector<Manifest::SharedGroup> shared;
  for (const Json& one : list) {
    in_context(fmt::format("shared group {}", shared.size()), [&] {
      if (one.is_object() && one.contains("same_as")) {
        expect_keys(one, kAliasKeys);
        shared.push_back({.group = text(one, "group"), .same_as = text(one, "same_as")});
        ENSURE(checkpoint, !shared.back().same_as.empty(), "'same_as' is empty");
        return;
      }
      expect_keys(one, kSharedFileKeys);
      shared.push_back({text(one, "group"), "", text(one, "file"),
                        whole_as<std::uint64_t>(one, "bytes"),
                        whole_as<std::uint32_t>(one, "checksum")});
    });
  }
  return shared;
}

/// Accepts only plain file names: a manifest from elsewhere must not refer to files outside of its
/// folder.
bool is_weights_name(std::string_view name) {
  return name.size() > kWeightsSuffix.size() && name.ends_with(kWeightsSuffix) &&
         !name.starts_with('.') && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

void check_shared(const std::vector<Manifest::SharedGroup>& shared) {
  std::set<std::string_view> groups;
  for (const Manifest::SharedGroup& one : shared) {
    ENSURE(checkpoint, !one.group.empty(), "an entry of its list 'shared' has an empty 'group'");
    ENSURE(checkpoint, groups.insert(one.group).second, "its list 'shared' names '{}' twice",
           printable(one.group));
    ENSURE(checkpoint, !one.same_as.empty() || is_weights_name(one.file),
           "the file of '{}' in its list 'shared' must be a file name that ends in {}, got '{}'",
           printable(one.group), kWeightsSuffix, printable(one.file));
  }
}

std::map<std::string, std::string> facts_of(const Json& object) {
  const Json& facts = object.at("facts");
  ENSURE(checkpoint, facts.is_object(), "'facts' must be a JSON object");
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : facts.items()) {
    ENSURE(checkpoint, value.is_string(), "'facts.{}' must be a string", printable(key));
    out[key] = value.get<std::string>();
  }
  return out;
}

/// Checks the format before the keys, because other formats may have other keys.
void expect_format(const Json& document) {
  ENSURE(checkpoint, document.is_object() && document.contains("format"), "'format' is missing");
  const std::int64_t format = whole(document, "format");
  ENSURE(checkpoint, format >= 1, "'format' must be at least 1, got {}", format);
  if (format != kFormat) throw UnsupportedFormat(format, kFormat);
}

Json json_of(const Manifest::SharedGroup& shared) {
  if (!shared.same_as.empty()) return {{"group", shared.group}, {"same_as", shared.same_as}};
  return {{"group", shared.group},
          {"file", shared.file},
          {"bytes", shared.bytes},
          {"checksum", shared.checksum}};
}

/// Returns the index of the epoch in which a resumed run starts.
std::int64_t epoch_index(const Json& document) {
  const std::int64_t next = whole(document, "next_epoch");
  ENSURE(checkpoint, next >= 1, "'next_epoch' must be at least 1, got {}", next);
  return next - 1;
}

void check_epoch(const Json& document, const Manifest& manifest) {
  const std::int64_t epoch = whole(document, "epoch");
  const std::int64_t expected = manifest.moment().epoch_number();
  ENSURE(checkpoint, epoch == expected,
         "'epoch' is {}, but must be {}, because 'next_epoch' is {} and 'step_in_epoch' is {}",
         epoch, expected, manifest.epoch + 1, manifest.step_in_epoch);
}

}  // namespace

UnsupportedFormat::UnsupportedFormat(std::int64_t found, std::int64_t expected)
    : Error(ErrorKind::checkpoint,
            fmt::format(
                "cannot read checkpoints of format {}: this version of trainctl reads format {}; "
                "the checkpoint is not changed\nhint: finish the run with the version that wrote "
                "it, or export the weights with that version (trainctl checkpoint export) and "
                "start a new run with weights=FILE",
                found, expected)) {}

void check(const Manifest& manifest) {
  const auto expect_not_negative = [](const char* key, std::int64_t value) {
    ENSURE(checkpoint, value >= 0, "'{}' must not be negative, got {}", key, value);
  };
  expect_not_negative("next_epoch", manifest.epoch);
  expect_not_negative("step_in_epoch", manifest.step_in_epoch);
  expect_not_negative("global_step", manifest.global_step);
  ENSURE(checkpoint, manifest.world_size >= 1 && manifest.world_size <= kMostRanks,
         "'world_size' must be from 1 to {}, got {}", kMostRanks, manifest.world_size);
  ENSURE(checkpoint, std::cmp_equal(manifest.parts.size(), manifest.world_size),
         "'parts' must have one entry per rank, got {} for {} rank{}", manifest.parts.size(),
         manifest.world_size, plural(manifest.world_size));
  for (int rank = 0; rank < manifest.world_size; ++rank) {
    const std::string& file = manifest.parts[static_cast<std::size_t>(rank)].file;
    ENSURE(checkpoint, file == part_name(rank), "the part of rank {} is named '{}', expected '{}'",
           rank, printable(file), part_name(rank));
  }
  check_shared(manifest.shared);
}

Json to_json(const Manifest& manifest) {
  Json parts = Json::array();
  for (const Manifest::Part& part : manifest.parts) {
    parts.push_back(Json{{"file", part.file}, {"bytes", part.bytes}, {"checksum", part.checksum}});
  }
  Json shared = Json::array();
  for (const Manifest::SharedGroup& one : manifest.shared) shared.push_back(json_of(one));
  const bool finite = manifest.value && std::isfinite(*manifest.value);
  Json facts = Json::object();
  for (const auto& [key, value] : manifest.facts) facts[key] = value;
  return {{"format", kFormat},
          {"epoch", manifest.moment().epoch_number()},
          {"next_epoch", manifest.epoch + 1},
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
          {"facts", facts},
          {"shared", shared}};
}

Manifest from_json(const Json& document, const std::string& label) {
  return in_context(label, [&] {
    expect_format(document);
    expect_keys(document, kKeys);
    Manifest manifest;
    manifest.epoch = epoch_index(document);
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
    manifest.shared = shared_of(document);
    check(manifest);
    check_epoch(document, manifest);
    return manifest;
  });
}

}  // namespace trainctl::checkpoint
