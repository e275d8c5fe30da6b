#include "base/json_archive.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

namespace trainctl {
namespace {

// ---- writing

template <class T>
Json json_of(const T& value) {
  return value;
}
Json json_of(double value) { return exact_text(value); }
Json json_of(const std::optional<double>& value) {
  return value ? Json(exact_text(*value)) : Json(nullptr);
}

// ---- reading: each function returns what was expected, or null if the value has that type

const char* read(const Json& json, bool& value) {
  if (!json.is_boolean()) return "true or false";
  value = json.get<bool>();
  return nullptr;
}

const char* read(const Json& json, std::int64_t& value) {
  const bool fits =
      !json.is_number_unsigned() || std::in_range<std::int64_t>(json.get<std::uint64_t>());
  if (!json.is_number_integer() || !fits) return "an integer";
  value = json.get<std::int64_t>();
  return nullptr;
}

const char* read(const Json& json, std::uint64_t& value) {
  const bool fits =
      json.is_number_unsigned() || (json.is_number_integer() && json.get<std::int64_t>() >= 0);
  if (!fits) return "an integer of at least 0";
  value = json.get<std::uint64_t>();
  return nullptr;
}

const char* read(const Json& json, std::string& value) {
  if (!json.is_string()) return "a string";
  value = json.get<std::string>();
  return nullptr;
}

const char* read(const Json& json, double& value) {
  const auto found =
      json.is_string() ? exact_double(json.get_ref<const std::string&>()) : std::nullopt;
  if (!found) return "a number in a string, such as \"1.8p+1\"";
  value = *found;
  return nullptr;
}

const char* read(const Json& json, std::optional<double>& value) {
  value.reset();
  return json.is_null() ? nullptr : read(json, value.emplace());
}

const char* read(const Json& json, std::vector<std::uint64_t>& values) {
  constexpr const char* kWanted = "a list of integers of at least 0";
  if (!json.is_array()) return kWanted;
  values.clear();
  for (const Json& item : json) {
    if (read(item, values.emplace_back()) != nullptr) return kWanted;
  }
  return nullptr;
}

std::string shown(const Json& json) {
  constexpr std::size_t kMost = 60;
  const std::string text = to_line(json);
  return printable(text.size() > kMost ? text.substr(0, kMost) + "..." : text);
}

}  // namespace

void StateWriter::value(std::string_view key, ValuePointer target) {
  std::visit([&](const auto* value) { put(key, json_of(*value)); }, target);
}

void StateWriter::enter(std::string_view key) { levels_.emplace_back(key, Json::object()); }

void StateWriter::leave() {
  auto [key, values] = std::move(levels_.back());
  levels_.pop_back();
  put(key, std::move(values));
}

void StateWriter::put(std::string_view key, Json value) {
  Json& level = levels_.back().second;
  ASSERT(!level.contains(key));
  level[std::string(key)] = std::move(value);
}

StateReader::StateReader(const Json& json) {
  ENSURE(checkpoint, json.is_object(), "its saved state must be a JSON object, got {}",
         shown(json));
  levels_.push_back({"", &json, {}});
}

void StateReader::value(std::string_view key, ValuePointer target) {
  const Json& found = take(key);
  const char* wanted = std::visit([&](auto* value) { return read(found, *value); }, target);
  ENSURE(checkpoint, wanted == nullptr, "the saved value '{}{}' must be {}, got {}",
         levels_.back().path, key, wanted, shown(found));
}

bool StateReader::has(std::string_view key) const { return levels_.back().json->contains(key); }

void StateReader::enter(std::string_view key) {
  const Json& found = take(key);
  const std::string& above = levels_.back().path;
  ENSURE(checkpoint, found.is_object(), "the saved value '{}{}' must be a JSON object, got {}",
         above, key, shown(found));
  levels_.push_back({fmt::format("{}{}.", above, key), &found, {}});
}

void StateReader::leave() {
  finish();
  levels_.pop_back();
}

const Json& StateReader::take(std::string_view key) {
  Level& level = levels_.back();
  const auto found = level.json->find(key);
  ENSURE(checkpoint, found != level.json->end(), "the saved value '{}{}' is missing", level.path,
         key);
  level.taken.emplace(key);
  return *found;
}

void StateReader::finish() const {
  const Level& level = levels_.back();
  for (const auto& [key, value] : level.json->items())
    ENSURE(checkpoint, level.taken.contains(key), "the saved value '{}{}' is unknown", level.path,
           printable(key));
}

}  // namespace trainctl
