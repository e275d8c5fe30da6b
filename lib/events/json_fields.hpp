#pragma once

#include "base/json.hpp"
#include "events/records.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// JSON of records: what workers tell their supervisor, and what supervisors tell each other. A
// record is a struct for which its namespace has `each_field(record, visit)`, as in fields.hpp; its
// members are plain values, lists and optional ones of them, and further records.

namespace trainctl::events {

/// What was expected in the place of a value. Whoever reads a line says what the line is.
struct Mismatch {
  std::string expected;
};

inline void demand(bool holds, const char* expected) {
  if (!holds) throw Mismatch{expected};
}

namespace detail {
struct AnyField {
  void operator()(const char* /*name*/, auto& /*member*/) const {}
};
}  // namespace detail

template <class T>
concept Record = requires(T& record) {
  each_field(record, detail::AnyField{});
};

// ---- writing

inline Json value_of(bool value) { return value; }
inline Json value_of(int value) { return value; }
inline Json value_of(std::int64_t value) { return value; }
inline Json value_of(const std::string& value) { return value; }
Json value_of(Phase value);
/// JSON has no numbers that are not finite: they are "nan", "inf" and "-inf".
Json value_of(double value);
Json value_of(const std::map<std::string, std::string>& values);
/// One object, in the order of the list.
Json value_of(const Metrics& values);
template <class T>
Json value_of(const std::optional<T>& value);
template <class T>
Json value_of(const std::vector<T>& values);

template <Record T>
Json value_of(const T& record) {
  Json object = Json::object();
  each_field(record, [&](const char* name, const auto& value) { object[name] = value_of(value); });
  return object;
}

template <class T>
Json value_of(const std::optional<T>& value) {
  return value ? value_of(*value) : Json(nullptr);
}

template <class T>
Json value_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(value_of(value));
  return list;
}

// ---- reading: each throws Mismatch

void read(const Json& json, bool& value);
void read(const Json& json, std::int64_t& value);
void read(const Json& json, int& value);
void read(const Json& json, std::string& value);
void read(const Json& json, double& value);
void read(const Json& json, Phase& value);
void read(const Json& json, std::map<std::string, std::string>& values);
void read(const Json& json, Metrics& values);
/// A phase that the object lacks is newer than the object, and took no time.
void read(const Json& json, Timing& timing);
template <class T>
void read(const Json& json, std::optional<T>& value);
template <class T>
void read(const Json& json, std::vector<T>& values);

namespace detail {
template <class T>
constexpr bool kMayBeAbsent = false;
template <class T>
constexpr bool kMayBeAbsent<std::optional<T>> = true;
}  // namespace detail

/// An optional field may be missing: an earlier version did not know it.
template <Record T>
void read_fields(const Json& json, T& record) {
  demand(json.is_object(), "an object");
  each_field(record, [&](const char* name, auto& value) {
    const auto found = json.find(name);
    if (found == json.end()) {
      if (detail::kMayBeAbsent<std::remove_cvref_t<decltype(value)>>) return;
      throw Mismatch{fmt::format("a field '{}'", name)};
    }
    try {
      read(*found, value);
    } catch (const Mismatch& mismatch) {
      throw Mismatch{fmt::format("{} in '{}'", mismatch.expected, name)};
    }
  });
}

template <Record T>
void read(const Json& json, T& record) {
  read_fields(json, record);
}

template <class T>
void read(const Json& json, std::optional<T>& value) {
  if (json.is_null()) {
    value.reset();
  } else {
    read(json, value.emplace());
  }
}

template <class T>
void read(const Json& json, std::vector<T>& values) {
  demand(json.is_array(), "a list");
  for (const Json& one : json) read(one, values.emplace_back());
}

}  // namespace trainctl::events
